//! The README's own commands, as they stand there: every line of its install blocks is run, with the lab's
//! addresses, versions and folders put in for the example's. A line that nobody here knows is a failure.

use std::path::Path;

use crate::base::Base;
use crate::enclosure::ROOM;
use crate::room::Lab;
use crate::scenarios::rollout::{GOOD, OLD};
use crate::wait::{Done, Failure, check, fail, secs, wait_until};

/// The chapters whose code blocks are run, in order.
const CHAPTERS: &str = "## Install for real";

pub fn install_for_real(lab: &Lab, base: Base) -> Done {
    let folder = Path::new(ROOM).join("readme");
    std::fs::create_dir_all(folder.join("dist"))?;
    for host in [OLD, GOOD] {
        let package = lab.host_package(host)?;
        let name = package.file_name().ok_or_else(|| Failure::new("a package without a name"))?;
        std::fs::copy(&package, folder.join("dist").join(name))?;
    }
    let mesh = lab.mesh()?;
    let node = lab.node("r1", base)?;
    node.boot()?;
    node.sh("mkdir -p /root/packages")?;
    std::fs::copy(
        folder.join(format!("dist/nox-mesh-host_{}_amd64.deb", OLD.version)),
        node.place("/root/nox-mesh-host_1.0.0_amd64.deb"),
    )?;
    let readme = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md"))?;
    let mut token = serde_json::Value::Null;
    let mut ran = 0;
    for line in commands(&readme)? {
        let line = line.replace("1.2.3", OLD.version).replace("1.3.0", GOOD.version);
        ran += 1;
        lab.say(&line);
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            // Built by the lab itself, by the same rules; the flags of make are its own tests' matter.
            ["make", ..] | ["install", ..] => {}
            ["nox-mesh", "serve", options @ ..] => {
                check(options.starts_with(&["--data"]), || format!("serve with {options:?}"))?;
                mesh.start()?;
            }
            ["nox-mesh", "token", "create"] => token = mesh.cli(&["token", "create"])?,
            ["nox-mesh", "rollout", "start", ..] => {
                mesh.wait_node("r1", "armed", secs(20), |n| n["armed"] == true)?;
                mesh.command(&words[1..]).current_dir(&folder).status()?;
            }
            ["nox-mesh", verb @ ..] => {
                let status = mesh.command(verb).current_dir(&folder).status()?;
                check(status.success(), || format!("{line} ended with {status}"))?;
            }
            ["dpkg", "-i", package] => drop(node.run(["dpkg", "-i", &format!("/root/{package}")])?.ok()?),
            ["nox-mesh-host", "join", ..] => {
                let text = |key: &str| token[key].as_str().unwrap_or_default().to_owned();
                let line = line.replace("https://mesh.example:8443", &mesh.url());
                let line = line.replace("--token …", &format!("--token {}", text("token")));
                node.sh(&line.replace("sha256:…", &text("ca")))?;
            }
            ["nox-mesh-host", "status"] => {
                let said = node.sh(&line)?;
                check(said.contains(OLD.version), || format!("status does not say the version: {said}"))?;
            }
            ["cat", ">", ..] => {
                let script = format!("cd '{}' && {line}\n", folder.display());
                check(std::process::Command::new("sh").arg("-c").arg(script).status()?.success(), || {
                    line.clone()
                })?;
            }
            _ => return fail(format!("the README has a command that its test does not know: {line}")),
        }
    }
    check(ran >= 12, || format!("only {ran} commands were found in the README"))?;
    check(node.runs(GOOD.version)?, || "the README's rollout did not reach the node".into())?;
    wait_until("the declared file is there", secs(10), || {
        Ok(node.read("/etc/motd") == "managed by the mesh\n")
    })?;
    Ok(())
}

/// The commands of the chapter's code blocks: comments cut off, a here-document with its command.
fn commands(readme: &str) -> Result<Vec<String>, Failure> {
    let start =
        readme.find(CHAPTERS).ok_or_else(|| Failure::new("the README has lost its install chapter"))?;
    let chapter = readme.get(start + 3..).unwrap_or_default();
    let chapter = chapter.split("\n## ").next().unwrap_or_default();
    let mut commands: Vec<String> = Vec::new();
    let mut in_block = false;
    let mut here: Option<String> = None;
    for line in chapter.lines() {
        if line.starts_with("```") {
            in_block = !in_block;
        } else if let Some(text) = &mut here {
            text.push_str(&format!("\n{line}"));
            if line == "END" {
                commands.extend(here.take());
            }
        } else if in_block && line.ends_with("<<'END'") {
            here = Some(line.to_owned());
        } else if in_block {
            let command = line.split(" #").next().unwrap_or_default().trim();
            if !command.is_empty() {
                commands.push(command.to_owned());
            }
        }
    }
    Ok(commands)
}
