//! Runs a program with a time limit and keeps its output. Called by everything in the lab that starts one.
//!
//! Output goes to files, not pipes: a daemon that a command leaves behind may hold a pipe open for ever.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::wait::{Failure, fail};

/// Long enough for anything that is not a wait of its own, on a slow machine.
const DEFAULT_LIMIT: Duration = Duration::from_secs(60);

/// A program to run.
pub struct Run {
    command: Command,
    shown: String,
    limit: Duration,
}

/// How it ended.
pub struct Output {
    shown: String,
    /// Exit status; 128 + signal when a signal ended it.
    pub code: i32,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Run {
    /// Program and arguments, the environment emptied but for a plain PATH, HOME and locale.
    pub fn new<A: AsRef<OsStr>>(words: impl IntoIterator<Item = A>) -> Run {
        let words: Vec<OsString> = words.into_iter().map(|w| w.as_ref().to_owned()).collect();
        let shown = words.iter().map(|w| w.to_string_lossy()).collect::<Vec<_>>().join(" ");
        let mut command = Command::new(words.first().cloned().unwrap_or_default());
        command.args(words.iter().skip(1)).env_clear().stdin(Stdio::null()).process_group(0);
        command.env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        command.env("HOME", "/root").env("LC_ALL", "C").env("TERM", "dumb");
        Run { command, shown, limit: DEFAULT_LIMIT }
    }

    /// One more argument.
    pub fn arg(mut self, word: impl AsRef<OsStr>) -> Run {
        self.shown = format!("{} {}", self.shown, word.as_ref().to_string_lossy());
        self.command.arg(word);
        self
    }

    /// More arguments.
    pub fn args<A: AsRef<OsStr>>(self, words: impl IntoIterator<Item = A>) -> Run {
        words.into_iter().fold(self, |run, word| run.arg(word))
    }

    /// Another time limit.
    pub fn limit(mut self, limit: Duration) -> Run {
        self.limit = limit;
        self
    }

    /// One more variable of the environment.
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Run {
        self.command.env(name, value);
        self
    }

    /// Runs it to its end. An error is a program that could not start or ran out of time.
    pub fn output(mut self) -> Result<Output, Failure> {
        let (mut out, mut err) = (scratch()?, scratch()?);
        self.command.stdout(out.try_clone()?).stderr(err.try_clone()?);
        let started = Instant::now();
        let mut child = self.command.spawn().map_err(|e| Failure::from(e).while_doing(&self.shown))?;
        let mut pause = Duration::from_millis(1);
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            if started.elapsed() > self.limit {
                // The whole group: nsenter waits for a child of its own.
                if let Some(group) = Pid::from_raw(child.id().cast_signed()) {
                    let _ = kill_process_group(group, Signal::KILL);
                }
                let _ = child.wait();
                let limit = self.limit.as_secs_f64();
                let (out, err) = (text(&mut out)?, text(&mut err)?);
                return fail(format!("no end after {limit} s: {}\n{out}{err}", self.shown));
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(20));
        };
        let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
        Ok(Output { shown: self.shown, code, out: text(&mut out)?, err: text(&mut err)? })
    }

    /// Runs it and insists on exit status 0.
    pub fn ok(self) -> Result<Output, Failure> {
        self.output()?.ok()
    }
}

impl Output {
    /// Whether it ended with status 0.
    pub fn is_ok(&self) -> bool {
        self.code == 0
    }

    /// Itself, or a failure with everything that it said.
    pub fn ok(self) -> Result<Output, Failure> {
        if self.is_ok() {
            return Ok(self);
        }
        fail(format!("`{}` ended with {}\n{}{}", self.shown, self.code, self.out, self.err))
    }

    /// Standard output without the white space around it.
    pub fn text(&self) -> &str {
        self.out.trim()
    }
}

fn scratch() -> Result<File, Failure> {
    use rustix::fs::{MemfdFlags, memfd_create};
    Ok(File::from(memfd_create("lab-output", MemfdFlags::CLOEXEC)?))
}

fn text(file: &mut File) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
