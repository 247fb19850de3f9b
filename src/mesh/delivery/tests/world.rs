//! A world of nodes for tests: each node says real heartbeats, the mesh hears them through presence, the
//! driver's part (store, then act) is played here. Every step is checked against the invariants.

use crate::mesh::delivery::*;
use crate::mesh::presence::{Listening, Millis, hear};
use crate::model::{Facts, NodeId, RolloutId, Version};
use crate::wire::heartbeat::{Heartbeat, OrderState, Refused, Rollback};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub const SECOND: Millis = 1000;
pub const MINUTE: Millis = 60 * SECOND;
pub const OLD: &str = "1.4.0";
pub const NEW: &str = "1.5.0";

/// A machine.
#[derive(Clone, Debug)]
pub struct Machine {
    pub beat: Heartbeat,
    /// Says heartbeats.
    pub alive: bool,
    /// Begun and not ended, as the machine knows it.
    pub changing: bool,
}

/// Machines, the mesh that hears them, and one rollout.
#[derive(Clone)]
pub struct World {
    pub machines: BTreeMap<NodeId, Machine>,
    pub view: FleetView,
    pub rollout: Rollout,
    pub now: Millis,
    pub acts: Vec<Action>,
    pub report: Report,
    pub outage: bool,
    next_generation: u64,
}

/// Something that happens in a world; node numbers are those of [`id`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// A minute passes; everyone alive is heard.
    Minute,
    /// The mesh hears nothing for five minutes, in a new epoch afterwards.
    Restart,
    /// The network between the mesh and every node breaks, or is whole again: nothing is heard, and the
    /// mesh does not know why.
    Outage,
    /// A person stops the rollout.
    Abort,
    /// The node takes its order and says so.
    Receive(usize),
    /// The node takes its order; nobody hears of it.
    ReceiveUnheard(usize),
    /// The node asks for its claim and begins.
    Claim(usize),
    /// The new version confirms and is heard.
    Confirm(usize),
    /// The old version is back and is heard.
    RollBack(usize),
    /// The install fails for the machine's sake, and is heard.
    FailInstall(usize),
    /// The node is not heard any more.
    Die(usize),
    /// The node says goodbye and is gone.
    Goodbye(usize),
    /// The node is back, on what it ran.
    Return(usize),
}

pub fn version(text: &str) -> Version {
    text.parse().unwrap()
}

pub fn id(number: usize) -> NodeId {
    format!("n-{number:02}").parse().unwrap()
}

fn machine(number: usize) -> Machine {
    let beat = Heartbeat {
        format: 1,
        node: id(number).to_string(),
        boot: format!("boot-{number}"),
        start: 1,
        sequence: 0,
        version: OLD.into(),
        confirmed: true,
        known_good: Some(OLD.into()),
        armed: true,
        ..Default::default()
    };
    Machine { beat, alive: true, changing: false }
}

pub fn facts(architecture: &str) -> Facts {
    Facts {
        architecture: architecture.into(),
        package_format: "deb".into(),
        distribution: "debian-12".into(),
        kernel: "6.1".into(),
    }
}

/// A fleet that was heard once, before any rollout.
pub struct Fleet {
    pub machines: BTreeMap<NodeId, Machine>,
    pub view: FleetView,
    pub now: Millis,
}

pub fn fleet(count: usize) -> Fleet {
    let mut fleet = Fleet { machines: BTreeMap::new(), view: FleetView::default(), now: 1000 * SECOND };
    fleet.view.listening = Listening::default().begin(0);
    fleet.view.recent_ms = 90 * SECOND;
    for number in 1..=count {
        let node = NodeView {
            name: format!("web{number:02}"),
            facts: facts("amd64"),
            has_package: true,
            ..Default::default()
        };
        fleet.view.nodes.insert(id(number), node);
        fleet.machines.insert(id(number), machine(number));
    }
    fleet
}

impl Fleet {
    /// Changes one node before it is heard.
    pub fn with(mut self, number: usize, change: impl FnOnce(&mut Machine, &mut NodeView)) -> Self {
        let (machine, node) =
            (self.machines.get_mut(&id(number)).unwrap(), self.view.nodes.get_mut(&id(number)).unwrap());
        change(machine, node);
        self
    }

    pub fn hear_all(&mut self) {
        for (id, machine) in self.machines.iter_mut().filter(|(_, machine)| machine.alive) {
            machine.beat.sequence += 1;
            let node = self.view.nodes.get_mut(id).unwrap();
            let presence = Arc::unwrap_or_clone(std::mem::take(&mut node.presence));
            node.presence = Arc::new(hear(presence, &machine.beat, self.now).0);
        }
    }

    pub fn try_start(&mut self, plan: Plan) -> Result<Rollout, crate::mesh::delivery::Refused> {
        self.hear_all();
        let matched: BTreeSet<NodeId> = self.machines.keys().cloned().collect();
        let rollout: RolloutId = "r-1".parse().unwrap();
        start(plan, version(NEW), rollout, 7, &matched, &self.view, self.now)
    }

    pub fn start(self) -> World {
        self.start_with(Plan::default())
    }

    pub fn start_with(mut self, plan: Plan) -> World {
        let rollout = self.try_start(plan).unwrap();
        let report = report(&rollout, &self.view, self.now);
        let Fleet { machines, view, now } = self;
        let mut world =
            World { machines, view, rollout, now, acts: vec![], report, outage: false, next_generation: 1 };
        world.step();
        world
    }
}

impl World {
    /// One round of the driver: step, store, act. Checks the invariants.
    pub fn step(&mut self) {
        let before = self.rollout.clone();
        let (next, acts, said) = step(&before, &self.view, self.now);
        self.check(&before, &next, &acts);
        self.rollout = next;
        (self.acts, self.report) = (acts, said);
        self.act();
        self.check_declared();
    }

    /// The mesh stores a step, dies before it acts, and starts again.
    pub fn crash_in_step(&mut self) {
        let before = self.rollout.clone();
        let (next, acts, _) = step(&before, &self.view, self.now);
        self.check(&before, &next, &acts);
        // What is not in the stored form is lost.
        self.rollout = serde_json::from_str(&serde_json::to_string(&next).unwrap()).unwrap();
        assert_eq!(self.rollout, next);
    }

    /// The mesh was away for a while: a new listening epoch.
    pub fn restart_mesh(&mut self, away: Millis) {
        self.now += away;
        self.view.listening = self.view.listening.deafen().begin(self.now);
    }

    fn act(&mut self) {
        for act in self.acts.clone() {
            self.next_generation += 1;
            match act {
                Action::Tell { node, version, attempt, .. } => {
                    let generation = self.next_generation;
                    let rollout = self.rollout.id.clone();
                    self.view.nodes.get_mut(&node).unwrap().order =
                        Some(OrderView { rollout, attempt, version, generation });
                }
                Action::Withdraw { node, .. } => self.view.nodes.get_mut(&node).unwrap().order = None,
            }
        }
    }

    fn check(&self, before: &Rollout, next: &Rollout, acts: &[Action]) {
        let wave = next.waves.last();
        for act in acts {
            let Action::Tell { node, .. } = act else { continue };
            assert!(wave.is_some_and(|w| w.nodes.contains(node)), "{node} told outside the wave");
            assert_ne!(next.state, State::Stopped, "told after a stop");
        }
        if before.state == State::Stopped {
            assert_eq!(
                (next.state, &next.stopped),
                (State::Stopped, &before.stopped),
                "a stop was taken back"
            );
        }
        for (id, was) in before.members.iter().filter(|(_, m)| m.outcome.is_terminal()) {
            let is = &next.members[id];
            assert_eq!((&is.outcome, is.decided), (&was.outcome, was.decided), "{id} changed back");
        }
        let open = next.members.values().filter(|m| m.is_open()).count();
        let allowed = draw::max_in_change(next);
        assert!(open <= allowed, "{open} told and undecided, {allowed} allowed");
        for wave in next.waves.iter().filter(|w| w.passed_at.is_some()) {
            let confirmed = |(_, m): (&NodeId, &Member)| m.outcome == Outcome::Confirmed;
            assert!(next.wave_members(wave).any(confirmed), "a wave passed without a confirmed node");
        }
        let earlier = next.waves.len().saturating_sub(1);
        let stray = next.members.iter().find(|(_, m)| m.is_open() && m.wave != Some(earlier));
        assert!(stray.is_none(), "an order is in force outside the current wave: {stray:?}");
    }

    /// Nobody's declaration holds an order of the rollout unless the node was told.
    fn check_declared(&self) {
        for (id, node) in &self.view.nodes {
            let ours = node.order.as_ref().is_some_and(|o| o.attempt == self.rollout.attempt);
            let told = self.rollout.members.get(id).is_some_and(|m| m.told.is_some());
            assert!(!ours || told, "{id} holds an order and was not told");
        }
        let changing = self.machines.values().filter(|m| m.changing && m.alive).count();
        assert!(changing <= draw::max_in_change(&self.rollout), "{changing} machines in change");
    }

    /// Lets it happen, as far as it can; `false`: it could not. The caller steps.
    pub fn happen(&mut self, event: Event) -> bool {
        match event {
            Event::Minute => {
                self.now += MINUTE;
                self.numbers().into_iter().for_each(|number| self.beat(number));
            }
            Event::Restart => self.restart_mesh(5 * MINUTE),
            Event::Outage => self.outage = !self.outage,
            Event::Abort if self.rollout.state == State::Stopped => return false,
            Event::Abort => self.rollout = abort(&self.rollout, "", &self.view, self.now),
            Event::Receive(n)
            | Event::ReceiveUnheard(n)
            | Event::Claim(n)
            | Event::Confirm(n)
            | Event::RollBack(n)
            | Event::FailInstall(n)
            | Event::Die(n)
            | Event::Goodbye(n) => {
                return self.machines.get(&id(n)).is_some_and(|m| m.alive) && self.happen_to(event, n);
            }
            Event::Return(n) => {
                let Some(machine) = self.machines.get_mut(&id(n)).filter(|m| !m.alive) else { return false };
                (machine.alive, machine.changing, machine.beat.goodbye) = (true, false, None);
                (machine.beat.start, machine.beat.sequence) = (machine.beat.start + 1, 0);
                self.beat(n);
            }
        }
        true
    }

    fn happen_to(&mut self, event: Event, n: usize) -> bool {
        let machine = &self.machines[&id(n)];
        let holds = machine.beat.order.as_ref().is_some_and(|order| order.state != "failed");
        let changing = machine.changing;
        match event {
            Event::Receive(_) | Event::ReceiveUnheard(_) if holds || machine.beat.version == NEW => {
                return false;
            }
            Event::Receive(_) | Event::ReceiveUnheard(_) if !self.receive(n) => return false,
            // A claim goes through the same ears as a heartbeat.
            Event::Claim(_) => {
                return holds && !changing && !self.outage && self.claim(n);
            }
            Event::Confirm(_) | Event::RollBack(_) if !changing => return false,
            Event::Confirm(_) => {
                self.start_new(n);
                self.confirm(n);
            }
            Event::RollBack(_) => self.roll_back(n),
            Event::FailInstall(_) if !holds => return false,
            Event::FailInstall(_) => {
                let machine = self.machine(n);
                machine.changing = false;
                let order = machine.beat.order.as_mut().unwrap();
                (order.state, order.class) = ("failed".into(), Some("machine".into()));
                order.reason = Some("disk".into());
            }
            Event::Goodbye(_) => self.machine(n).beat.goodbye = Some("shutdown".into()),
            _ => {}
        }
        if event == Event::Die(n) {
            self.machine(n).alive = false;
        } else if event != Event::ReceiveUnheard(n) {
            self.beat(n);
        }
        if event == Event::Goodbye(n) {
            self.machine(n).alive = false;
        }
        true
    }

    pub fn machine(&mut self, number: usize) -> &mut Machine {
        self.machines.get_mut(&id(number)).unwrap()
    }

    /// The node says a heartbeat now.
    pub fn beat(&mut self, number: usize) {
        let machine = self.machines.get_mut(&id(number)).unwrap();
        if !machine.alive || self.outage || !self.view.listening.hears {
            return;
        }
        machine.beat.sequence += 1;
        let beat = machine.beat.clone();
        self.heard(number, &beat);
    }

    /// The mesh hears this statement now.
    pub fn heard(&mut self, number: usize, beat: &Heartbeat) {
        let node = self.view.nodes.get_mut(&id(number)).unwrap();
        let presence = Arc::unwrap_or_clone(std::mem::take(&mut node.presence));
        node.presence = Arc::new(hear(presence, beat, self.now).0);
    }

    /// The node takes its declaration, if an order is in it. It does not say so yet.
    pub fn receive(&mut self, number: usize) -> bool {
        let Some(order) = self.view.nodes[&id(number)].order.clone() else { return false };
        let machine = self.machine(number);
        if machine.beat.refused.iter().any(|r| r.version == NEW && r.attempt >= order.attempt) {
            return false;
        }
        machine.beat.accepted = order.generation;
        machine.beat.order = Some(OrderState {
            rollout: order.rollout.to_string(),
            attempt: order.attempt,
            version: order.version.to_string(),
            state: "received".into(),
            ..Default::default()
        });
        true
    }

    /// The node asks whether it may begin; `true`: it begins.
    pub fn claim(&mut self, number: usize) -> bool {
        match claim(&self.rollout, &id(number), 7) {
            Ok(next) => {
                assert_ne!(self.rollout.state, State::Stopped, "a claim was granted after a stop");
                self.rollout = next;
                self.machine(number).changing = true;
                true
            }
            Err(_) => false,
        }
    }

    /// The new version starts.
    pub fn start_new(&mut self, number: usize) {
        let beat = &mut self.machine(number).beat;
        (beat.start, beat.sequence) = (beat.start + 1, 0);
        beat.version = NEW.into();
        beat.confirmed = false;
    }

    pub fn confirm(&mut self, number: usize) {
        let machine = self.machine(number);
        machine.beat.confirmed = true;
        machine.beat.known_good = Some(machine.beat.version.clone());
        machine.beat.order = None;
        machine.changing = false;
    }

    /// The old version is back, with the evidence.
    pub fn roll_back(&mut self, number: usize) {
        let machine = self.machine(number);
        let beat = &mut machine.beat;
        (beat.start, beat.sequence) = (beat.start + 4, 0);
        beat.version = OLD.into();
        beat.confirmed = true;
        beat.order = None;
        beat.refused =
            vec![Refused { version: NEW.into(), attempt: 7, reason: "rolled back: would not start".into() }];
        beat.rollbacks = vec![Rollback {
            id: 1,
            boot: beat.boot.clone(),
            from: NEW.into(),
            to: OLD.into(),
            attempt: 7,
            rollout: Some("r-1".into()),
            outcome: "rolled-back".into(),
            reason: "would not start".into(),
            result: Some("exit-code".into()),
            code: Some("exited".into()),
            status: Some("101".into()),
            log: vec![
                "reading settings".into(),
                "panicked at reconcile: no such key".into(),
                "note: run with `RUST_BACKTRACE=1` to see more".into(),
            ],
        }];
        machine.changing = false;
    }

    /// Order, claim, new version, confirmed, and said.
    pub fn upgrade(&mut self, number: usize) {
        assert!(self.receive(number), "{number} has no order");
        self.beat(number);
        self.step();
        assert!(self.claim(number), "{number} was not granted its claim");
        self.start_new(number);
        self.beat(number);
        self.confirm(number);
        self.beat(number);
    }

    /// Order, claim, crash, old version back, and said.
    pub fn fail(&mut self, number: usize) {
        assert!(self.receive(number), "{number} has no order");
        self.beat(number);
        self.step();
        assert!(self.claim(number), "{number} was not granted its claim");
        self.roll_back(number);
        self.beat(number);
    }

    /// Time passes: everyone alive is heard every 30 s, the driver steps as often.
    pub fn pass(&mut self, time: Millis) {
        let end = self.now + time;
        while self.now < end {
            self.now = (self.now + 30 * SECOND).min(end);
            for number in self.numbers() {
                self.beat(number);
            }
            self.step();
        }
    }

    pub fn numbers(&self) -> Vec<usize> {
        self.machines.keys().map(|id| id.as_str()[2..].parse().unwrap()).collect()
    }

    /// The nodes whose orders are in force.
    pub fn told(&self) -> Vec<usize> {
        let open = self.rollout.members.iter().filter(|(_, m)| m.is_open());
        open.map(|(id, _)| id.as_str()[2..].parse().unwrap()).collect()
    }

    pub fn outcome(&self, number: usize) -> &str {
        let wanted = id(number).to_string();
        self.report.nodes.iter().find(|n| n.id == wanted).map_or("not told", |n| n.outcome.as_str())
    }

    pub fn why_not(&self, number: usize) -> &str {
        let wanted = id(number).to_string();
        self.report.not_included.iter().find(|n| n.id == wanted).map_or("", |n| n.reason.as_str())
    }

    /// Upgrades wave after wave, as long as somebody is told.
    pub fn finish_well(&mut self) {
        for _ in 0..200 {
            for number in self.told() {
                self.upgrade(number);
            }
            self.step();
            if self.rollout.state == State::Complete {
                return;
            }
            self.pass(5 * MINUTE);
        }
        panic!("not complete:\n{}", self.report.text());
    }
}
