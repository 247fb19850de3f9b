//! Runs scenarios: each in a process and namespaces of its own, a few side by side, one line each.
//!
//! Outside (`run`) chooses, makes the bases, starts, waits, counts. Inside (`inside`) is one scenario.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::process::{Child, ExitCode};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::base::Base;
use crate::enclosure;
use crate::hosts::Host;
use crate::queue::Queue;
use crate::room::Lab;
use crate::scenarios::{self, Case};
use crate::wait::{Failure, fail};

/// What the command line asks for.
#[derive(Default)]
pub struct Wish {
    list: bool,
    verbose: bool,
    live: bool,
    jobs: Option<usize>,
    names: Vec<String>,
}

impl Wish {
    /// Reads the arguments. `--nocapture` is taken for `--verbose`, as other test programs have it.
    pub fn read(arguments: impl Iterator<Item = String>) -> Result<Wish, String> {
        let mut wish = Wish::default();
        let mut arguments = arguments;
        while let Some(word) = arguments.next() {
            match word.as_str() {
                "--list" => wish.list = true,
                "--verbose" | "--nocapture" => wish.verbose = true,
                "--live" => wish.live = true,
                "--jobs" => {
                    let number = arguments.next().and_then(|n| n.parse().ok()).filter(|n| *n > 0);
                    wish.jobs = Some(number.ok_or("--jobs wants a number")?);
                }
                flag if flag.starts_with('-') => return Err(format!("no such option: {flag}")),
                name => wish.names.push(name.to_owned()),
            }
        }
        Ok(wish)
    }
}

/// The whole run.
pub fn run(wish: &Wish) -> ExitCode {
    let chosen: Vec<Case> = scenarios::all().into_iter().filter(|c| c.is_meant_by(&wish.names)).collect();
    if wish.list {
        chosen.iter().for_each(|case| println!("{}", case.name()));
        return ExitCode::SUCCESS;
    }
    if !enclosure::is_root() {
        println!("the lab boots real machines: it needs root, and was left out");
        println!("0 passed, 0 failed, {} skipped", chosen.len());
        return ExitCode::SUCCESS;
    }
    // Not left out: a lab that silently does nothing where it could run would be believed.
    if let Some(tool) = enclosure::missing_tool() {
        println!("the lab needs {tool} (make tools)\n0 passed, {} failed", chosen.len());
        return ExitCode::FAILURE;
    }
    if chosen.is_empty() {
        println!("no scenario has {} in its name (--list shows them)", wish.names.join(" or "));
    }
    enclosure::sweep();
    let ground = match Ground::prepare(&chosen, wish.live) {
        Ok(ground) => ground,
        Err(why) => {
            println!("the lab could not be prepared: {why}");
            return ExitCode::FAILURE;
        }
    };
    let queue = Queue::new(chosen, wish.jobs.unwrap_or_else(default_jobs));
    // The threads outlive every child that they start, which the enclosure relies on.
    let (mut passed, mut failed) = (0, 0);
    std::thread::scope(|scope| {
        let (sender, results) = std::sync::mpsc::channel();
        for _ in 0..queue.jobs {
            let (sender, queue, ground) = (sender.clone(), &queue, &ground);
            scope.spawn(move || {
                while let Some(case) = queue.take() {
                    let started = Instant::now();
                    let (result, narration) = ground.run(&case);
                    queue.give_back(&case);
                    let _ = sender.send((case.name(), started.elapsed(), result, narration));
                }
            });
        }
        drop(sender);
        for (name, took, result, narration) in results {
            let took = took.as_secs_f64();
            match result {
                Ok(()) => {
                    passed += 1;
                    println!("ok  {name}  {took:.1} s");
                    if wish.verbose {
                        println!("{narration}");
                    }
                }
                Err(why) => {
                    failed += 1;
                    println!("FAILED  {name}  {took:.1} s\n{narration}\n{why}\n");
                }
            }
        }
    });
    enclosure::sweep();
    println!("{passed} passed, {failed} failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Scenarios mostly wait, so more of them run than there are processors.
fn default_jobs() -> usize {
    std::thread::available_parallelism().map_or(4, |n| n.get() * 2).min(8)
}

/// What all scenarios of a run stand on.
struct Ground {
    /// A base that could not be made fails its own scenarios only.
    bases: BTreeMap<Base, Result<PathBuf, String>>,
    id: String,
    count: AtomicUsize,
    /// Told as it happens.
    live: bool,
}

impl Ground {
    fn prepare(cases: &[Case], live: bool) -> Result<Ground, Failure> {
        let wanted: BTreeSet<Base> = cases.iter().map(Case::base).collect();
        let hosts: BTreeSet<Host> = cases.iter().flat_map(|case| case.hosts().iter().copied()).collect();
        hosts.into_iter().try_for_each(|host| host.build().map(|_| ()))?;
        let obtained = wanted.into_iter().map(|base| (base, base.obtain().map_err(|e| e.to_string())));
        let (id, count) = (enclosure::new_id()?, AtomicUsize::new(0));
        Ok(Ground { bases: obtained.collect(), id, count, live })
    }

    /// One scenario from start to end, and its narration.
    fn run(&self, case: &Case) -> (Result<(), Failure>, String) {
        if self.live {
            let told = enclosure::standard_output().and_then(|out| self.start(case, &out));
            return (told.and_then(|child| wait(child, case.limit())), String::new());
        }
        let mut log = match enclosure::narration() {
            Ok(log) => log,
            Err(e) => return (Err(e), String::new()),
        };
        let result = self.start(case, &log).and_then(|child| wait(child, case.limit()));
        let mut text = Vec::new();
        let read = log.seek(SeekFrom::Start(0)).and_then(|_| log.read_to_end(&mut text));
        let narration = String::from_utf8_lossy(&text).into_owned();
        (result.and(read.map(|_| ()).map_err(Failure::from)), narration)
    }

    fn start(&self, case: &Case, log: &File) -> Result<Child, Failure> {
        let base = case.base();
        let folder = match self.bases.get(&base) {
            Some(Ok(folder)) => folder.clone(),
            Some(Err(text)) => return fail(text.clone()),
            None => return fail("its base was not asked for"),
        };
        let id = format!("{}-{}", self.id, self.count.fetch_add(1, Ordering::Relaxed));
        enclosure::start(&case.name(), &id, &[(base.variable(), folder)], log)
    }
}

/// The limit is for a scenario whose own waits failed it; its processes go with it.
fn wait(mut child: Child, limit: Duration) -> Result<(), Failure> {
    let started = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if started.elapsed() > limit {
            child.kill()?;
            child.wait()?;
            return fail(format!("did not end within {} s and was killed", limit.as_secs()));
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    if status.success() { Ok(()) } else { fail(format!("the scenario's process ended with {status}")) }
}

/// Inside the namespaces: one scenario, its narration on standard output.
pub fn inside(name: &str) -> ExitCode {
    let Some(case) = scenarios::all().into_iter().find(|c| c.name() == name) else {
        println!("no scenario {name}");
        return ExitCode::from(2);
    };
    let lab = match Lab::new() {
        Ok(lab) => lab,
        Err(why) => {
            println!("the lab could not be set up: {why}");
            return ExitCode::FAILURE;
        }
    };
    match case.run(&lab) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            lab.say(format!("FAILED: {why}"));
            println!("{}", lab.evidence());
            ExitCode::FAILURE
        }
    }
}
