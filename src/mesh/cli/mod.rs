//! The command line of `nox-mesh`.
//!
//! `serve` is the mesh; every other verb is one call to its operator API, printed as a table for people
//! or as JSON. Exit codes: 0 ok, 1 failure, 2 usage, 3 the watched rollout stopped, 4 nothing matched,
//! 5 refused, 6 the mesh cannot be reached.

pub mod client;
pub mod context;
pub mod table;
pub mod values;
pub mod verbs;
pub mod watch;

use crate::mesh::core::PausePoint;
use crate::mesh::serve::Settings;
use crate::mesh::{logger, serve};
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use values::{duration, size, sizes};

/// Where the socket of an installed mesh is.
const SOCKET: &str = "/var/lib/nox-mesh/operator.sock";

/// Staged rollouts for a fleet's own agent.
#[derive(Debug, Parser)]
#[command(name = "nox-mesh", version, max_term_width = 100, arg_required_else_help = true)]
pub struct Cli {
    /// The mesh's operator socket
    #[arg(long, global = true, env = "NOX_MESH_SOCKET", default_value = SOCKET, hide_env_values = true)]
    pub socket: PathBuf,
    /// How to print
    #[arg(long, global = true, value_enum, default_value = "table")]
    pub output: Output,
    /// What to do
    #[command(subcommand)]
    pub verb: Verb,
}

/// For people or for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// Columns and sentences
    Table,
    /// JSON
    Json,
}

/// What `nox-mesh` can do.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Run the mesh
    Serve(ServeArgs),
    /// Tokens that let machines join
    #[command(subcommand)]
    Token(TokenVerb),
    /// List the nodes
    Nodes,
    /// Label nodes, for --select
    Label(LabelArgs),
    /// Packages of the host that nodes can be told to install
    #[command(subcommand)]
    Package(PackageVerb),
    /// Declare what shall be on the nodes
    Declare(DeclareArgs),
    /// Carry a version of the host to the nodes, in waves
    #[command(subcommand)]
    Rollout(RolloutVerb),
}

/// `serve`.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Folder of everything that the mesh keeps
    #[arg(long)]
    pub data: PathBuf,
    /// Where nodes connect to, ADDR:PORT
    #[arg(long)]
    pub listen: SocketAddr,
    /// The address that nodes are told, https://HOST:PORT
    #[arg(long)]
    pub advertise: Option<String>,
    /// How often nodes report
    #[arg(long, value_parser = duration, default_value = "30s")]
    pub heartbeat: Duration,
    /// The operator socket [default: DATA/operator.sock]
    #[arg(long)]
    pub operator_socket: Option<PathBuf>,
    /// For tests: stand still at a point
    #[arg(long, hide = true)]
    pub pause_at: Option<PausePoint>,
}

/// `token …`.
#[derive(Debug, Subcommand)]
pub enum TokenVerb {
    /// Make a token and print the command that joins a machine
    Create {
        /// How many machines it lets in
        #[arg(long, default_value_t = 1)]
        uses: u64,
        /// For how long
        #[arg(long, value_parser = duration, default_value = "24h")]
        expires: Duration,
    },
}

/// `label`.
#[derive(Debug, Args)]
pub struct LabelArgs {
    /// key=value to set, key= to take off
    #[arg(required = true, value_name = "KEY=VALUE")]
    pub labels: Vec<String>,
    /// Which nodes: name=…, id=… or label=value; several of one key mean any of them
    #[arg(long, required = true, value_name = "KEY=VALUE")]
    pub select: Vec<String>,
}

/// `package …`.
#[derive(Debug, Subcommand)]
pub enum PackageVerb {
    /// Add packages to the store
    Add {
        /// nox-mesh-host_VERSION_ARCH.deb
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
    /// List the packages of the store
    List,
}

/// `declare`.
#[derive(Debug, Args)]
pub struct DeclareArgs {
    /// TOML with [[resource]] tables: kind, name, …
    pub file: PathBuf,
    /// Which nodes [default: all, also those that join later]
    #[arg(long, value_name = "KEY=VALUE")]
    pub select: Vec<String>,
}

/// `rollout …`.
#[derive(Debug, Subcommand)]
pub enum RolloutVerb {
    /// Start one
    Start(StartArgs),
    /// Say where one stands, or all
    Status {
        /// Which one
        id: Option<String>,
    },
    /// Print what happens until it ends
    Watch {
        /// Which one [default: the newest]
        id: Option<String>,
    },
    /// Everything about one: verdict, evidence, every node
    Report {
        /// Which one [default: the newest]
        id: Option<String>,
    },
    /// Stop one: no node begins any more
    #[command(alias = "abort")]
    Stop {
        /// Which one
        id: String,
        /// For the report
        #[arg(long, default_value = "stopped by hand")]
        why: String,
    },
}

/// `rollout start`.
#[derive(Debug, Args)]
pub struct StartArgs {
    /// The version to carry out; its package is in the store
    #[arg(long = "version", value_name = "VERSION")]
    pub to: String,
    /// Which nodes: name=…, id=… or label=value [default: all]
    #[arg(long, value_name = "KEY=VALUE")]
    pub select: Vec<String>,
    /// Nodes of each kind that go first
    #[arg(long, default_value_t = 2)]
    pub canary: u32,
    /// Silence longer than this counts
    #[arg(long, value_parser = duration, default_value = "10m")]
    pub window: Duration,
    /// A node that has its order confirms within this time
    #[arg(long, value_parser = duration, default_value = "30m")]
    pub confirm_deadline: Duration,
    /// Quiet time between a wave and the next
    #[arg(long, value_parser = duration, default_value = "30m")]
    pub soak: Duration,
    /// Sizes of the waves after the canary, nodes or percent
    #[arg(long, value_parser = sizes, default_value = "2,5%,20%")]
    pub waves: values::Sizes,
    /// Most nodes in change at once, nodes or percent
    #[arg(long, value_parser = size, default_value = "20%")]
    pub max_in_change: crate::mesh::delivery::Size,
    /// Tell nodes too on which no rollback could follow
    #[arg(long)]
    pub insist_unarmed: bool,
    /// Ask nodes again that refuse the version since an older attempt
    #[arg(long)]
    pub retry_refused: bool,
}

/// The program.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // A pipe that nobody reads any more is no error.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
        }
    };
    let result = match cli.verb {
        Verb::Serve(arguments) => return run_server(arguments),
        verb => run_client(context::Context { socket: cli.socket, output: cli.output }, verb),
    };
    match result {
        Ok(code) => code,
        Err(failure) => {
            let _ = writeln!(std::io::stderr(), "nox-mesh: {failure}");
            failure.exit_code()
        }
    }
}

fn run_client(context: context::Context, verb: Verb) -> Result<ExitCode, client::Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| client::Failure::Local(error.to_string()))?;
    runtime.block_on(verbs::run(&context, verb))
}

fn run_server(arguments: ServeArgs) -> ExitCode {
    logger::start();
    let settings = Settings {
        data: arguments.data,
        listen: arguments.listen,
        advertise: arguments.advertise,
        heartbeat: arguments.heartbeat,
        operator_socket: arguments.operator_socket,
        pause_at: arguments.pause_at,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let ended = runtime.map_err(Into::into).and_then(|runtime| runtime.block_on(serve::run(settings)));
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            log::error!("{fault}");
            ExitCode::from(if matches!(fault, crate::mesh::fault::Fault::Malformed(_)) { 2 } else { 1 })
        }
    }
}

#[cfg(test)]
#[path = "cli_tests.rs"]
mod tests;
