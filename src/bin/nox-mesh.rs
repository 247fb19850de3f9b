//! The mesh's program: `nox-mesh serve` and the operator's commands.

fn main() -> std::process::ExitCode {
    nox_mesh::mesh::main()
}
