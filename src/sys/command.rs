//! The only place that starts a program: no shell, a clean environment, no input, a time limit, and
//! the tail of what it said.
//!
//! The program gets a process group of its own, so that the limit ends its children too. The wait is
//! the one wait of the thread: a signal to us ends the program and is left for the loop to take.
//! When the program has ended nobody waits for those who still hold its pipe (C49).

use super::clock;
use super::wait::{self, For, Waiter, Woken};
use rustix::fs::OFlags;
use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Most bytes of output that are kept: the last ones.
const TAIL_BYTES_MAX: usize = 2048;
/// Where programs are looked for.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What to start.
#[derive(Debug)]
pub struct Program<'a> {
    /// A path, or a name to be looked for in the fixed search path.
    pub program: &'a OsStr,
    /// Its arguments.
    pub arguments: &'a [&'a OsStr],
    /// Environment beside `PATH` and `LC_ALL`.
    pub environment: &'a [(&'a str, OsString)],
    /// Where its output goes.
    pub output: Output,
    /// When it is ended by force.
    pub limit: Duration,
}

/// Where a program's output goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// The tail is returned.
    Kept,
    /// To where ours goes: for a program that leaves something running behind, which must not hold a
    /// pipe that we close (C49).
    Ours,
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By itself, with this status.
    Exit(i32),
    /// Killed by this signal, not by us.
    Killed(i32),
    /// By us, at its time limit.
    OverTime,
    /// By us, because of a signal to us.
    Interrupted,
}

/// The end and the last output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// How it ended.
    pub end: End,
    /// The last output, standard and error, as text.
    pub tail: String,
}

/// Runs a program to its end.
///
/// # Errors
/// When it cannot be started at all.
pub fn run(waiter: &Waiter, program: &Program<'_>) -> io::Result<Ended> {
    let (mut reader, mut child) = spawn(program)?;
    let ended = wait::process_end(child.id());
    let until = clock::monotonic().saturating_add(program.limit);
    let mut tail = Vec::new();
    let end = loop {
        let gone = match &ended {
            Ok(gone) => gone,
            Err(_) => break by_force(&mut child, End::OverTime),
        };
        let mut on = vec![(gone.as_fd(), For::Reading)];
        if let Some(reader) = &reader {
            on.push((reader.as_fd(), For::Reading));
        }
        match waiter.wait(&on, until) {
            Ok(Woken::Ready | Woken::Bell) => {}
            Ok(Woken::Deadline) => break by_force(&mut child, End::OverTime),
            Ok(Woken::Signal) | Err(_) => break by_force(&mut child, End::Interrupted),
        }
        if let Some(open) = &mut reader
            && drain(open, &mut tail)
        {
            reader = None;
        }
        if let Some(status) = child.try_wait()? {
            break match (status.code(), status.signal()) {
                (Some(code), _) => End::Exit(code),
                (None, signal) => End::Killed(signal.unwrap_or_default()),
            };
        }
    };
    if let Some(open) = &mut reader {
        drain(open, &mut tail);
    }
    Ok(Ended { end, tail: String::from_utf8_lossy(&tail).trim_end().to_owned() })
}

fn spawn(program: &Program<'_>) -> io::Result<(Option<io::PipeReader>, Child)> {
    let mut command = Command::new(program.program);
    command
        .args(program.arguments)
        .env_clear()
        .env("PATH", PATH)
        .env("LC_ALL", "C")
        .envs(program.environment.iter().map(|(name, value)| (name, value)))
        .current_dir(Path::new("/"))
        .stdin(Stdio::null())
        .process_group(0);
    let reader = match program.output {
        Output::Ours => None,
        Output::Kept => {
            let (reader, writer) = io::pipe()?;
            rustix::fs::fcntl_setfl(&reader, OFlags::NONBLOCK)?;
            command.stdout(writer.try_clone()?).stderr(writer);
            Some(reader)
        }
    };
    let child = command.spawn()?;
    Ok((reader, child))
}

fn by_force(child: &mut Child, end: End) -> End {
    if let Some(group) = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw) {
        // The group may have ended by itself in this moment.
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    let _ = child.wait();
    end
}

/// Reads what is there; true at the end of the output.
fn drain(reader: &mut io::PipeReader, tail: &mut Vec<u8>) -> bool {
    let mut piece = [0u8; 1024];
    // Bounded: a program that writes without end is cut by its time limit, not waited for here.
    for _ in 0..64 {
        match reader.read(&mut piece) {
            Ok(0) => return true,
            Ok(length) => {
                tail.extend_from_slice(piece.get(..length).unwrap_or_default());
                let surplus = tail.len().saturating_sub(TAIL_BYTES_MAX);
                tail.drain(..surplus);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return error.kind() != io::ErrorKind::WouldBlock,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str, limit: Duration) -> Ended {
        let program = Program {
            program: OsStr::new("sh"),
            arguments: &[OsStr::new("-c"), OsStr::new(script)],
            environment: &[("GIVEN", OsString::from("1"))],
            output: Output::Kept,
            limit,
        };
        run(&Waiter::plain().unwrap(), &program).unwrap()
    }

    #[test]
    fn status_output_and_environment() {
        let long = Duration::from_secs(20);
        let ended = sh("echo out; echo err >&2; exit 3", long);
        assert_eq!(ended, Ended { end: End::Exit(3), tail: "out\nerr".into() });
        assert_eq!(sh("kill -9 $$", long).end, End::Killed(9));
        assert_eq!(sh("echo ${HOME-none} $GIVEN $LC_ALL; pwd", long).tail, "none 1 C\n/");
        let tail = sh("i=0; while [ $i -lt 5000 ]; do echo line $i; i=$((i+1)); done", long).tail;
        assert!(tail.len() <= TAIL_BYTES_MAX && tail.ends_with("line 4999"));
    }

    #[test]
    fn the_limit_ends_the_program_and_its_children() {
        let began = clock::monotonic();
        assert_eq!(sh("sleep 50 & sleep 50", Duration::from_millis(100)).end, End::OverTime);
        assert!(clock::monotonic() - began < Duration::from_secs(20));
    }

    #[test]
    fn c49_one_who_keeps_the_pipe_is_not_waited_for() {
        let began = clock::monotonic();
        assert_eq!(sh("sleep 5 & exit 0", Duration::from_secs(20)).end, End::Exit(0));
        assert!(clock::monotonic() - began < Duration::from_secs(4));
    }

    #[test]
    fn what_cannot_start_is_an_error() {
        let program = Program {
            program: OsStr::new("/nowhere/at-all"),
            arguments: &[],
            environment: &[],
            output: Output::Kept,
            limit: Duration::from_secs(1),
        };
        assert!(run(&Waiter::plain().unwrap(), &program).is_err());
    }
}
