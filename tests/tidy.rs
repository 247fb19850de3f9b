//! The rules of the house as tests: who may import whom, what a pure room may not touch, how long
//! a file, a function and a line may be, which crates the host may have.
//!
//! Text is scanned, not parsed: comments and strings are left out roughly, tests (`#[cfg(test)]` to the
//! end of the file, `*_tests.rs`) are free of the purity rules.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const FILE_LINES_MAX: usize = 500;
const FUNCTION_LINES_MAX: usize = 70;
const LINE_COLUMNS_MAX: usize = 110;

/// Room (path below `src/`), and what of `crate::` it may import.
const IMPORTS: &[(&str, &[&str])] = &[
    ("model/", &["model"]),
    ("wire/", &["wire", "model"]),
    ("sys/", &["sys"]),
    ("host/life/", &["wire", "model", "host::life"]),
    ("mesh/delivery/", &["wire", "model", "mesh::delivery", "mesh::presence"]),
    ("mesh/presence/", &["wire", "model", "mesh::presence"]),
    ("host/", &["host", "sys", "wire", "model"]),
    ("mesh/", &["mesh", "sys", "wire", "model"]),
    ("bin/", &[]),
];

/// Rooms without clock, file system, processes, network, log and chance.
const PURE: &[&str] = &["model/", "wire/", "host/life/", "mesh/delivery/", "mesh/presence/"];
/// Files of effect inside pure rooms, each with its reason.
const EFFECT_INSIDE_PURE: &[&str] = &[
    // Loads, steps, stores by compare-and-swap, then acts: the one place where delivery meets the world.
    "mesh/delivery/driver.rs",
];
const IMPURE_TOKENS: &[&str] = &[
    "std::fs",
    "std::net",
    "std::process",
    "std::thread",
    "std::env",
    "Instant::now",
    "SystemTime",
    "log::",
    "crate::sys",
    "HashMap",
    "HashSet",
    "rand::",
    "println!",
    "eprintln!",
];

/// A token, the only files (below `src/`) that may say it, and why.
const ONLY_IN: &[(&str, &[&str], &str)] = &[
    ("Command::new", &["sys/command.rs"], "every command has a time limit and a bounded output"),
    ("sync_all", &["sys/durable.rs"], "state is written whole or not at all, in one place"),
    ("fs::rename", &["sys/durable.rs"], "state is written whole or not at all, in one place"),
    (
        "Instant::now",
        &["sys/clock.rs", "mesh/clock.rs", "mesh/link/stall.rs"],
        "time is a value that is handed in",
    ),
    ("SystemTime::now", &["sys/clock.rs", "mesh/clock.rs"], "time is a value that is handed in"),
    ("ring::", &["sys/crypt.rs", "sys/tls", "mesh/"], "crypto crates are named in one place"),
    ("rusqlite", &["mesh/engine/"], "only the engine knows the database"),
    ("unsafe {", &["sys/"], "unsafe code stays at the rim"),
];

struct Source {
    /// Below `src/`.
    path: String,
    text: String,
    /// Number of lines that are not tests.
    product_lines: usize,
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn files_below(folder: &Path, ending: &str, out: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            files_below(&path, ending, out);
        } else if path.to_string_lossy().ends_with(ending) {
            out.push(path);
        }
    }
    out.sort();
}

fn sources() -> Vec<Source> {
    let src = root().join("src");
    let mut paths = Vec::new();
    files_below(&src, ".rs", &mut paths);
    paths
        .into_iter()
        .map(|path| {
            let text = fs::read_to_string(&path).unwrap();
            let name = path.strip_prefix(&src).unwrap().to_string_lossy().into_owned();
            let is_test = name.ends_with("tests.rs") || name.contains("/tests/");
            let cut = text.lines().position(|line| line.trim() == "#[cfg(test)]");
            let product_lines = if is_test { 0 } else { cut.unwrap_or(text.lines().count()) };
            Source { path: name, text, product_lines }
        })
        .collect()
}

impl Source {
    /// Product lines without comments and the inside of string literals, numbered from 1.
    fn code(&self) -> impl Iterator<Item = (usize, String)> + '_ {
        self.text.lines().take(self.product_lines).enumerate().map(|(i, line)| (i + 1, without_text(line)))
    }
}

fn without_text(line: &str) -> String {
    let mut out = String::new();
    let mut characters = line.chars().peekable();
    let mut quoted = false;
    while let Some(c) = characters.next() {
        match c {
            '\\' if quoted => {
                characters.next();
            }
            '"' => quoted = !quoted,
            '/' if !quoted && characters.peek() == Some(&'/') => break,
            c if !quoted => out.push(c),
            _ => {}
        }
    }
    out
}

fn complain(found: Vec<String>) {
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

#[test]
fn rooms_import_only_what_they_may() {
    let mut found = Vec::new();
    for source in sources() {
        let Some((_, allowed)) = IMPORTS.iter().find(|(room, _)| source.path.starts_with(room)) else {
            continue;
        };
        for (number, line) in source.code() {
            for part in line.split("crate::").skip(1) {
                let fits = |rule: &str| part.strip_prefix(rule).is_some_and(|rest| !rest.starts_with(ident));
                if !allowed.iter().any(|rule| fits(rule)) {
                    found.push(format!("src/{}:{number}: may not import crate::{part}", source.path));
                }
            }
        }
    }
    complain(found);
}

/// Whether the token stands in the line, not as the end of a longer word.
fn says(line: &str, token: &str) -> bool {
    line.match_indices(token).any(|(at, _)| !line.get(..at).unwrap_or_default().ends_with(ident))
}

fn ident(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[test]
fn pure_rooms_touch_nothing_outside() {
    let mut found = Vec::new();
    for source in sources() {
        let in_room =
            PURE.iter().any(|room| source.path.starts_with(room)) || source.path.ends_with("/plan.rs");
        if !in_room || EFFECT_INSIDE_PURE.contains(&source.path.as_str()) {
            continue;
        }
        for (number, line) in source.code() {
            for token in IMPURE_TOKENS.iter().filter(|token| says(&line, token)) {
                found.push(format!("src/{}:{number}: '{token}' in a pure room", source.path));
            }
        }
    }
    complain(found);
}

#[test]
fn each_effect_has_one_place() {
    let mut found = Vec::new();
    for source in sources() {
        for (number, line) in source.code() {
            for (token, places, reason) in ONLY_IN {
                if says(&line, token) && !places.iter().any(|place| source.path.starts_with(place)) {
                    found.push(format!(
                        "src/{}:{number}: '{token}' belongs to {places:?}: {reason}",
                        source.path
                    ));
                }
            }
        }
    }
    complain(found);
}

#[test]
fn files_functions_and_lines_fit_in_a_head() {
    let mut paths = Vec::new();
    for folder in ["src", "tests"] {
        files_below(&root().join(folder), ".rs", &mut paths);
    }
    let mut found = Vec::new();
    for path in paths {
        let text = fs::read_to_string(&path).unwrap();
        let name = path.strip_prefix(root()).unwrap().display().to_string();
        let lines = text.lines().count();
        if lines > FILE_LINES_MAX && !text.contains("// tidy: long file:") {
            found.push(format!(
                "{name}: {lines} lines; split it, or give the reason as '// tidy: long file: …'"
            ));
        }
        for (i, line) in text.lines().enumerate() {
            if line.chars().count() > LINE_COLUMNS_MAX && !line.contains("http") {
                found.push(format!("{name}:{}: {} columns", i + 1, line.chars().count()));
            }
        }
        found.extend(long_functions(&name, &text));
    }
    complain(found);
}

/// Functions by rustfmt's indentation: from a line with `fn ` to the line that closes at its depth.
fn long_functions(name: &str, text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let body = line.trim_start();
        let depth = line.len() - body.len();
        let head = body.split('(').next().unwrap_or_default();
        let words: Vec<&str> = head.split(' ').collect();
        let is_function = words.windows(2).any(|pair| pair[0] == "fn") && !body.starts_with("//");
        if !is_function || body.ends_with(';') || body.ends_with('}') {
            continue;
        }
        let close = format!("{}}}", " ".repeat(depth));
        let length = lines.iter().skip(start).position(|l| *l == close).unwrap_or(0) + 1;
        if length > FUNCTION_LINES_MAX {
            found.push(format!("{name}:{}: a function of {length} lines", start + 1));
        }
    }
    found
}

#[test]
fn nothing_is_left_over() {
    let marks = [["to", "do!("], ["unimple", "mented!("], ["db", "g!("], ["FIX", "ME"]].map(|m| m.concat());
    let mut paths = Vec::new();
    for folder in ["src", "tests", "packaging", "docs"] {
        files_below(&root().join(folder), "", &mut paths);
    }
    let mut found = Vec::new();
    for path in paths {
        let Ok(text) = fs::read_to_string(&path) else { continue };
        for mark in marks.iter().filter(|mark| text.contains(mark.as_str())) {
            found.push(format!("{}: '{mark}' left over", path.display()));
        }
    }
    complain(found);
}

/// A dependency of the host is a reviewed artifact: a new one shows up here, and needs its reason.
#[test]
fn host_crates_are_the_listed_ones() {
    let output = Command::new(env!("CARGO"))
        .args([
            "tree",
            "--locked",
            "-e",
            "normal",
            "--no-default-features",
            "--prefix",
            "none",
            "--format",
            "{p}",
        ])
        .args(["--target", "x86_64-unknown-linux-musl"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let now: BTreeMap<String, String> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .filter_map(|line| {
            let mut words = line.split(' ');
            Some((words.next()?.to_owned(), words.next()?.trim_start_matches('v').to_owned()))
        })
        .filter(|(name, _)| name != "nox-mesh-host")
        .collect();
    let listed = fs::read_to_string(root().join("targets/host-crates.txt")).unwrap();
    let text: String = now.iter().map(|(name, version)| format!("{name} {version}\n")).collect();
    let reasons = fs::read_to_string(root().join("docs/dependencies.md")).unwrap();
    assert_eq!(
        text, listed,
        "the host's crates changed: update targets/host-crates.txt and docs/dependencies.md"
    );
    let forbidden = ["tokio", "async-std", "smol", "futures", "openssl", "openssl-sys", "native-tls"];
    complain(
        forbidden.iter().filter(|f| now.contains_key(**f)).map(|f| format!("the host has {f}")).collect(),
    );
    let direct = direct_dependencies();
    complain(
        direct
            .iter()
            .filter(|name| !reasons.contains(&format!("`{name}`")))
            .map(|name| format!("docs/dependencies.md gives no reason for `{name}`"))
            .collect(),
    );
}

fn direct_dependencies() -> Vec<String> {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let section = manifest.split("\n[dependencies]\n").nth(1).and_then(|s| s.split("\n[").next()).unwrap();
    let names = section.lines().filter(|line| !line.starts_with('#') && line.contains('='));
    names
        .filter(|line| !line.contains("optional = true"))
        .map(|l| l.split(' ').next().unwrap().to_owned())
        .collect()
}

/// A test that names a case names one that docs/cases.md tells.
#[test]
fn cases_that_tests_name_are_told() {
    let told = fs::read_to_string(root().join("docs/cases.md")).unwrap();
    let mut paths = Vec::new();
    for folder in ["src", "tests"] {
        files_below(&root().join(folder), "", &mut paths);
    }
    let mut found = Vec::new();
    for path in paths {
        let Ok(text) = fs::read_to_string(&path) else { continue };
        for case in cases_in_names(&text) {
            if !told.contains(&format!("| {case} |")) {
                found.push(format!("{}: {case} is not in docs/cases.md", path.display()));
            }
        }
    }
    complain(found);
}

/// Numbers of the form `fn c17_…` or `fn e3_…`, as `C17`, `E3`.
fn cases_in_names(text: &str) -> Vec<String> {
    let heads = text.split("fn ").skip(1).map(|rest| rest.split('(').next().unwrap_or_default());
    heads
        .flat_map(|name| name.split('_').map(str::to_owned).collect::<Vec<_>>())
        .filter(|word| {
            let digits = word.trim_start_matches(['c', 'e']);
            word.len() == digits.len() + 1 && !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
        })
        .map(|word| word.to_uppercase())
        .collect()
}

#[test]
fn the_scanner_sees_what_it_should() {
    assert_eq!(without_text(r#"let a = "std::fs // \" x"; // std::net"#), "let a = ; ");
    let long = format!("fn f() {{\n{}}}\n", "    x();\n".repeat(70));
    assert_eq!(long_functions("f", &long).len(), 1);
    assert_eq!(cases_in_names("fn c17_e11_refused() {} fn each_cut()"), ["C17", "E11"]);
}
