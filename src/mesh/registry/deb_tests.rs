use super::*;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;

fn tar(name: &str, content: &str) -> Vec<u8> {
    let mut head = [0u8; 512];
    head[..name.len()].copy_from_slice(name.as_bytes());
    head[124..136].copy_from_slice(format!("{:011o}\0", content.len()).as_bytes());
    let mut archive = head.to_vec();
    archive.extend_from_slice(content.as_bytes());
    archive.resize(archive.len().div_ceil(512) * 512, 0);
    archive
}

fn ar(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut file = b"!<arch>\n".to_vec();
    for (name, content) in members {
        writeln!(file, "{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`", 0, 0, 0, 100_644, content.len()).unwrap();
        file.extend_from_slice(content);
        if content.len() % 2 == 1 {
            file.push(b'\n');
        }
    }
    file
}

fn gz(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A package as nodes would get it; `data` tells two builds of one version apart.
pub fn package(version: &str, architecture: &str, data: &[u8]) -> Vec<u8> {
    let control = format!("Package: nox-mesh-host\nVersion: {version}\nArchitecture: {architecture}\n");
    let mut archive = tar("./", "");
    archive.extend(tar("./md5sums", &"x".repeat(700)));
    archive.extend(tar("./control", &control));
    ar(&[("debian-binary", b"2.0\n"), ("control.tar.gz", &gz(&archive)), ("data.tar.gz", data)])
}

#[test]
fn a_package_says_what_it_is() {
    let control = read(package("1.5.0~rc1", "arm64", b"").as_slice()).unwrap();
    assert_eq!((control.version.to_string().as_str(), control.architecture.as_str()), ("1.5.0~rc1", "arm64"));
}

#[test]
fn anything_else_is_refused_with_a_reason() {
    let with = |control: &str| ar(&[("debian-binary", b"2.0\n"), ("control.tar", &tar("control", control))]);
    let good = package("1.5.0", "amd64", b"");
    let rows: Vec<(Vec<u8>, &str)> = vec![
        (Vec::new(), "not a whole Debian package"),
        (b"#!/bin/sh\necho\n".to_vec(), "no ar archive"),
        (good[..good.len() / 2].to_vec(), "not a whole Debian package"),
        (ar(&[("debian-binary", b"2.0\n"), ("control.tar.xz", b"x")]), "-Zgzip"),
        (ar(&[("debian-binary", b"2.0\n"), ("control.tar.gz", b"xx")]), "not a whole Debian package"),
        (ar(&[("debian-binary", b"2.0\n"), ("control.tar", &tar("x", ""))]), "no control file"),
        (with("Package: bash\nVersion: 5.2\n"), "the package bash"),
        (with("Package: nox-mesh-host\nVersion: 1.5.0-1\nArchitecture: amd64\n"), "is not a version"),
        (with("Package: nox-mesh-host\nVersion: 1.5.0\nArchitecture: ../x\n"), "architecture"),
        (with("Package: nox-mesh-host\nVersion: 1.5.0\n"), "no Architecture"),
    ];
    for (bytes, wanted) in rows {
        let said = read(bytes.as_slice()).unwrap_err().to_string();
        assert!(said.contains(wanted), "{wanted}: {said}");
    }
    let bomb = gz(&vec![0; 9 * 1024 * 1024]);
    assert!(read(ar(&[("debian-binary", b"2.0\n"), ("control.tar.gz", &bomb)]).as_slice()).is_err());
}
