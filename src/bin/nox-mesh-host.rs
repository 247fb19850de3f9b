//! The node's program; everything is in the library.

fn main() -> std::process::ExitCode {
    nox_mesh::host::main()
}
