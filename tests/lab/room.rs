//! The lab as a scenario sees it: makes nodes, meshes and packages, says what happens, collects evidence.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Instant;

use crate::base::Base;
use crate::mesh::Mesh;
use crate::node::Node;
use crate::wait::{Done, Failure};
use crate::{enclosure, network};

/// One scenario's lab. Everything in it ends with it.
pub struct Lab {
    cgroups: enclosure::Cgroup,
    started: Instant,
    count: Cell<u8>,
    nodes: RefCell<Vec<Rc<Node>>>,
    meshes: RefCell<Vec<Rc<Mesh>>>,
}

impl Lab {
    /// Enters the room: mounts, cgroup, bridge. Once a process, and only in the scenario's own namespaces.
    pub fn new() -> Result<Lab, Failure> {
        let cgroups = enclosure::enter()?;
        network::lay()?;
        Ok(Lab {
            cgroups,
            started: Instant::now(),
            count: Cell::new(0),
            nodes: RefCell::default(),
            meshes: RefCell::default(),
        })
    }

    /// A new node that is off. Names are hostnames.
    pub fn node(&self, name: &str, base: Base) -> Result<Rc<Node>, Failure> {
        let number = self.count.get();
        self.count.set(number + 1);
        enclosure::room_for(usize::from(number) + 1)?;
        let node = Rc::new(Node::new(name, base, number, &self.cgroups.folder)?);
        self.nodes.borrow_mut().push(node.clone());
        Ok(node)
    }

    /// Several nodes of one base, booted side by side: `name1`, `name2`, …
    pub fn nodes(&self, name: &str, count: u8, base: Base) -> Result<Vec<Rc<Node>>, Failure> {
        let names = (1..=count).map(|i| format!("{name}{i}"));
        let nodes: Vec<_> = names.map(|n| self.node(&n, base)).collect::<Result<_, _>>()?;
        self.boot(&nodes)?;
        Ok(nodes)
    }

    /// Boots nodes side by side.
    pub fn boot(&self, nodes: &[Rc<Node>]) -> Done {
        let started = Instant::now();
        nodes.iter().try_for_each(|node| node.switch_on())?;
        nodes.iter().try_for_each(|node| node.wait_up())?;
        self.say(format!("{} booted in {:.2} s", nodes.len(), started.elapsed().as_secs_f64()));
        Ok(())
    }

    /// A mesh that is not started yet, with a data folder of its own. Nodes dial `mesh.url()`.
    pub fn mesh(&self) -> Result<Rc<Mesh>, Failure> {
        let mesh = Rc::new(Mesh::new(self.meshes.borrow().len())?);
        self.meshes.borrow_mut().push(mesh.clone());
        Ok(mesh)
    }

    /// A line of narration, with the scenario's own time. Shown when it fails, and with `--verbose`.
    pub fn say(&self, text: impl AsRef<str>) {
        println!("[{:7.3}] {}", self.started.elapsed().as_secs_f64(), text.as_ref());
    }

    /// Everything that may explain a failure.
    pub fn evidence(&self) -> String {
        let meshes = self.meshes.borrow();
        let nodes = self.nodes.borrow();
        meshes.iter().map(|m| m.evidence()).chain(nodes.iter().map(|n| n.evidence())).collect()
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.meshes.borrow_mut().clear();
        self.nodes.borrow_mut().clear();
        enclosure::remove_cgroup(&self.cgroups.folder);
    }
}
