//! The order of a reconcile: folders before what lies in them, the host last (so that a version change
//! never keeps another resource from its turn).

use crate::wire::declaration::{Resource, Spec};

/// The resources in the order of their turn.
pub fn order(resources: &[Resource]) -> Vec<&Resource> {
    let mut all: Vec<&Resource> = resources.iter().collect();
    // Stable: within a rank, and for equal paths, the document's order stays.
    all.sort_by_key(|resource| rank(&resource.spec));
    all
}

fn rank(spec: &Spec) -> (u8, &str) {
    match spec {
        // A path sorts before the longer paths that begin with it.
        Spec::Directory(directory) => (0, directory.path.as_str()),
        Spec::File(_) => (1, ""),
        Spec::Unusable(_) => (2, ""),
        Spec::Host(_) => (3, ""),
    }
}

#[cfg(test)]
mod tests {
    use crate::wire::declaration::read;

    #[test]
    fn folders_first_and_the_host_last() {
        let text = r#"{"format":1,"node":"n","generation":1,"resources":[
            {"kind":"host","name":"host"},{"kind":"file","name":"/a/b/f","content":""},
            {"kind":"later","name":"x"},
            {"kind":"file","name":"/a/a","content":""},{"kind":"directory","name":"/a/b"},
            {"kind":"directory","name":"/a"}]}"#;
        let document = read(text).unwrap();
        let order: Vec<&str> = super::order(&document.resources).iter().map(|r| r.id.as_str()).collect();
        assert_eq!(
            order,
            ["directory:/a", "directory:/a/b", "file:/a/b/f", "file:/a/a", "later:x", "host:host"]
        );
    }
}
