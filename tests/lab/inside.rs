//! What a scenario does and sees inside a node: commands, files, the journal, units.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::command::{Output, Run};
use crate::node::Node;
use crate::wait::{Done, Failure, fail, secs};

impl Node {
    /// A command in the node, to be given a limit or variables before it is run.
    pub fn command<'a>(&self, words: impl IntoIterator<Item = &'a str>) -> Result<Run, Failure> {
        let leader = self.leader();
        if leader == 0 {
            return fail(format!("node {} is off", self.name));
        }
        let target = leader.to_string();
        let enter = ["nsenter", "-t", &target, "-m", "-u", "-i", "-n", "-p", "-r", "-w", "--"];
        Ok(words.into_iter().fold(Run::new(enter), |run, word| run.arg(word)))
    }

    /// Runs a command in the node, for a minute at most.
    pub fn run<'a>(&self, words: impl IntoIterator<Item = &'a str>) -> Result<Output, Failure> {
        self.command(words)?.output()
    }

    /// Runs a line of shell in the node and insists that it ends well. Returns what it printed.
    pub fn sh(&self, line: &str) -> Result<String, Failure> {
        Ok(self.run(["sh", "-ec", line])?.ok()?.out)
    }

    /// A file of its disk, on or off. No file is an empty text.
    pub fn read(&self, path: &str) -> String {
        fs::read(self.place(path)).map(|b| String::from_utf8_lossy(&b).into_owned()).unwrap_or_default()
    }

    /// Writes a file of its disk, on or off, with the folders above it.
    pub fn write(&self, path: &str, content: impl AsRef<[u8]>) -> Done {
        let place = self.place(path);
        if let Some(folder) = place.parent() {
            fs::create_dir_all(folder)?;
        }
        Ok(fs::write(place, content)?)
    }

    /// Whether there is such a file or folder on its disk.
    pub fn has(&self, path: &str) -> bool {
        self.place(path).exists()
    }

    /// Where a path of the node lies in the lab.
    pub fn place(&self, path: &str) -> std::path::PathBuf {
        self.root().join(path.trim_start_matches('/'))
    }

    /// `dpkg -i`, as an administrator does it by hand.
    pub fn install_deb(&self, deb: &Path) -> Result<Output, Failure> {
        self.install_deb_with(deb, &[])
    }

    /// The same, with variables in its environment.
    pub fn install_deb_with(&self, deb: &Path, env: &[(&str, &str)]) -> Result<Output, Failure> {
        let name = deb.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let path = format!("/var/tmp/{name}");
        fs::copy(deb, self.place(&path))?;
        let mut run = self.command(["dpkg", "-i", &path])?.limit(secs(120));
        run = run.env("DEBIAN_FRONTEND", "noninteractive");
        for (key, value) in env {
            run = run.env(key, value);
        }
        run.output()
    }

    /// The journal of a unit (a pattern is fine) over all boots; everything when the name is empty.
    pub fn journal(&self, unit: &str) -> String {
        let mut words = vec!["journalctl", "--no-pager", "-o", "short-monotonic"];
        if !unit.is_empty() {
            words.extend(["-u", unit]);
        }
        let folder = self.place("/var/log/journal");
        let output = if self.is_on() {
            self.run(words)
        } else {
            words.push("-D");
            let folder = folder.to_string_lossy().into_owned();
            words.push(&folder);
            Run::new(words).output()
        };
        output.map(|o| o.out + &o.err).unwrap_or_default()
    }

    /// Properties of a unit, as `systemctl show` prints them.
    pub fn show(&self, unit: &str, names: &[&str]) -> Result<BTreeMap<String, String>, Failure> {
        let list = names.join(",");
        let shown = self.run(["systemctl", "show", "-p", &list, unit])?.ok()?;
        let pairs = shown.out.lines().filter_map(|line| line.split_once('='));
        Ok(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }

    /// One property of a unit.
    pub fn property(&self, unit: &str, name: &str) -> Result<String, Failure> {
        Ok(self.show(unit, &[name])?.remove(name).unwrap_or_default())
    }

    /// Whether a unit is active.
    pub fn is_active(&self, unit: &str) -> Result<bool, Failure> {
        Ok(self.property(unit, "ActiveState")? == "active")
    }

    /// `crate::wait::wait_until`, with the node's name in the sentence.
    pub fn wait_until(
        &self,
        what: &str,
        limit: Duration,
        look: impl FnMut() -> Result<bool, Failure>,
    ) -> Result<Duration, Failure> {
        crate::wait::wait_until(&format!("on {}: {what}", self.name), limit, look)
    }

    /// What a person would look at first when a scenario failed.
    pub fn evidence(&self) -> String {
        let started = Instant::now();
        let state = if self.is_on() { "on" } else { "off" };
        let mut text = format!("--- node {} ({}, {state})\n", self.name, self.base.name());
        if self.is_on() {
            let look = "systemctl --no-pager -l status 'nox-mesh-host*' 2>&1 | grep -v '^$' | head -40; \
                        cd /var/lib/mesh-host 2>/dev/null && ls -la . packages rollbacks; \
                        tail -n +1 known-good starts last-exit order result rollbacks/* 2>/dev/null; \
                        dpkg-query -W -f 'dpkg: ${Status} ${Version}\\n' nox-mesh-host";
            let seen = self.command(["sh", "-c", look]).and_then(|run| run.limit(secs(20)).output());
            text += &seen.map_or_else(|e| e.to_string(), |o| o.out + &o.err);
        }
        text += &format!("--- journal of {}\n", self.name);
        text += &crate::node::tail(&self.journal("nox-mesh-host*"), 60);
        if !self.is_on() || started.elapsed() > secs(20) {
            text += &format!("\n--- console of {}\n{}", self.name, self.console_tail());
        }
        text + "\n"
    }
}
