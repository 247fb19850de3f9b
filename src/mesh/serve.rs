//! `nox-mesh serve`: opens the folder, puts the parts together, and ends them in order.

use super::ca::Ca;
use super::clock::unix_seconds;
use super::core::{self, Mesh, Pause, PausePoint, Told};
use super::engine::Store;
use super::engine::embedded::Embedded;
use super::fault::Fault;
use super::link::{self, accept};
use super::{driver, operator};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;

/// With longer ones a silence of a few intervals would take half a day to be noticed.
const HEARTBEAT_MAX: Duration = Duration::from_secs(3600);
/// How often the certificate's end is looked at.
const RENEWAL_LOOK: Duration = Duration::from_secs(12 * 3600);
/// Shorter intervals are typing errors.
const HEARTBEAT_MIN: Duration = Duration::from_millis(100);
/// Descriptors that are kept for everything that is not a connection of a node.
const DESCRIPTORS_KEPT: u64 = 256;

/// What a person may choose.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Everything that the mesh keeps.
    pub data: PathBuf,
    /// Where the link listens.
    pub listen: SocketAddr,
    /// `https://HOST:PORT` as nodes are told; none: from `listen`.
    pub advertise: Option<String>,
    /// The interval that nodes are told.
    pub heartbeat: Duration,
    /// The operator's socket; none: in the data folder.
    pub operator_socket: Option<PathBuf>,
    /// For tests: where to stand still.
    pub pause_at: Option<PausePoint>,
}

/// Serves until SIGTERM or SIGINT.
pub async fn run(settings: Settings) -> Result<(), Fault> {
    check_heartbeat(settings.heartbeat)?;
    make_private(&settings.data)?;
    let store: Store = Arc::new(Embedded::open(&settings.data)?);
    let ca = core::authority(&store, &settings.data).await?;
    let listener = TcpListener::bind(settings.listen).await.map_err(|error| {
        io::Error::new(error.kind(), format!("listening on {}: {error}", settings.listen))
    })?;
    let (advertise, host) = advertised(settings.advertise.as_deref(), listener.local_addr()?)?;
    let tls = watch::Sender::new(link::tls::config(ca.server(&host, unix_seconds())?)?);
    let heartbeat_ms = u64::try_from(settings.heartbeat.as_millis()).unwrap_or(u64::MAX);
    let mark = settings.data.join("paused");
    crate::sys::durable::remove(&mark)?;
    let pause = Pause::new(settings.pause_at, mark);
    let stop = watch::Sender::new(false);
    let told = Told { advertise, heartbeat_ms };
    let mesh = Arc::new(Mesh::open(store, ca, told, pause, stop.subscribe()).await?);
    let socket = settings.operator_socket.unwrap_or_else(|| settings.data.join("operator.sock"));
    let (operators, bound) = operator::bind(&socket).await?;
    announce(&mesh, &listener, &socket)?;

    let door = accept::Door {
        tls: tls.subscribe(),
        router: link::routes::router(mesh.clone()),
        stopping: stop.subscribe(),
    };
    let connections = tokio::spawn(accept::run(listener, door, connections_max()));
    let deliver = tokio::spawn(driver::run(mesh.clone()));
    let mut ending = stop.subscribe();
    let api = axum::serve(operators, operator::routes::router(mesh.clone()))
        .with_graceful_shutdown(async move { drop(ending.wait_for(|stop| *stop).await) });
    let api = tokio::spawn(async move { api.await });
    wait_for_the_end(&mesh, &host, &tls).await?;

    log::info!("asked to stop: ending open calls");
    stop.send_replace(true);
    let _ = connections.await;
    let _ = deliver.await;
    let _ = tokio::time::timeout(link::FAREWELL_TIME, api).await;
    mesh.hearing.checkpoint(mesh.registry.store(), true).await?;
    bound.remove()?;
    log::info!("stopped");
    Ok(())
}

fn check_heartbeat(heartbeat: Duration) -> Result<(), Fault> {
    let wrong = |text: &str| Err(Fault::Malformed(text.into()));
    match heartbeat {
        short if short < HEARTBEAT_MIN => wrong("--heartbeat is at least 100ms: nodes would do nothing else"),
        long if long > HEARTBEAT_MAX => wrong("--heartbeat is at most 1h: a silent node would not be missed"),
        _ => Ok(()),
    }
}

fn announce(mesh: &Mesh, listener: &TcpListener, socket: &Path) -> Result<(), Fault> {
    log::info!("nox-mesh {} listens on {}", env!("CARGO_PKG_VERSION"), listener.local_addr()?);
    log::info!("nodes are told {}, CA {}", mesh.advertise, mesh.ca.fingerprint);
    log::info!("operators use {}", socket.display());
    log::info!("overlay = none: this mesh has no overlay range, nodes are reached over the link only");
    let (nodes, rollouts) = (mesh.registry.nodes().len(), mesh.rollout_ids().len());
    log::info!("{nodes} nodes, {rollouts} rollouts; listening epoch {}", mesh.hearing.listening().epoch);
    Ok(())
}

/// Waits for a signal; meanwhile looks at the certificate now and then.
async fn wait_for_the_end(
    mesh: &Mesh,
    host: &str,
    tls: &watch::Sender<Arc<rustls::ServerConfig>>,
) -> Result<(), Fault> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut looks = tokio::time::interval(RENEWAL_LOOK);
    looks.tick().await;
    loop {
        tokio::select! {
            _ = terminate.recv() => return Ok(()),
            _ = interrupt.recv() => return Ok(()),
            _ = looks.tick() => look_at_certificate(&mesh.ca, host, tls),
        }
    }
}

/// Takes a renewed certificate into use. A disk that is full for a day must not end the mesh: it goes on
/// with the certificate that it has, which is renewed a year before its end.
fn look_at_certificate(ca: &Ca, host: &str, tls: &watch::Sender<Arc<rustls::ServerConfig>>) {
    match ca.server(host, unix_seconds()).and_then(link::tls::config) {
        Ok(config) => {
            tls.send_replace(config);
        }
        Err(error) => log::error!("the certificate is not renewed, trying again later: {error}"),
    }
}

/// The data folder holds keys: for its owner only.
fn make_private(data: &Path) -> io::Result<()> {
    std::fs::create_dir_all(data)?;
    std::fs::set_permissions(data, std::fs::Permissions::from_mode(0o700))
}

/// The address that nodes are told, and the host in it, which the certificate is for.
fn advertised(wanted: Option<&str>, local: SocketAddr) -> Result<(String, String), Fault> {
    let Some(wanted) = wanted else {
        if local.ip().is_unspecified() {
            let text = format!(
                "--listen {local} says nothing that nodes could dial: add --advertise https://HOST:{}",
                local.port()
            );
            return Err(Fault::Malformed(text));
        }
        return Ok((format!("https://{local}"), local.ip().to_string()));
    };
    let wrong = || Fault::Malformed(format!("--advertise {wanted}: expected https://HOST:PORT"));
    let place = wanted.strip_prefix("https://").ok_or_else(wrong)?;
    let (host, port) = place.rsplit_once(':').ok_or_else(wrong)?;
    port.parse::<u16>().ok().filter(|port| *port > 0).ok_or_else(wrong)?;
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let address = bare.unwrap_or(host);
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
    let is_label = |label: &str| {
        (1..=63).contains(&label.len()) && label.bytes().all(is_plain) && !label.starts_with('-')
    };
    // What looks like an address and is none would be asked of a name server in vain.
    let is_name = host.len() <= 253
        && host.split('.').all(is_label)
        && host.rsplit('.').next().is_some_and(|last| last.bytes().any(|b| !b.is_ascii_digit()));
    let is_good = match address.parse::<IpAddr>() {
        Ok(address) if address.is_unspecified() => false,
        Ok(IpAddr::V6(_)) => bare.is_some(),
        Ok(IpAddr::V4(_)) => bare.is_none(),
        Err(_) => bare.is_none() && is_name,
    };
    if is_good { Ok((wanted.to_owned(), address.to_owned())) } else { Err(wrong()) }
}

/// Raises the limit of open files to what is allowed; the cap on connections follows from it.
fn connections_max() -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.unwrap_or(u64::MAX);
    let raised = Rlimit { current: Some(most), maximum: limit.maximum };
    let have = if setrlimit(Resource::Nofile, raised).is_ok() { most } else { limit.current.unwrap_or(most) };
    let room = have.saturating_sub(DESCRIPTORS_KEPT).max(64);
    usize::try_from(room).unwrap_or(usize::MAX).min(link::CONNECTIONS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mesh::trial::Folder;

    #[test]
    fn a_certificate_that_cannot_be_looked_at_ends_nothing() {
        let folder = Folder::new("serve-certificate");
        let ca = Ca::open(folder.path(), false).unwrap();
        let tls = watch::Sender::new(link::tls::config(ca.server("127.0.0.1", 1).unwrap()).unwrap());
        let mut seen = tls.subscribe();
        std::fs::rename(folder.path().join("ca"), folder.path().join("away")).unwrap();
        look_at_certificate(&ca, "127.0.0.1", &tls);
        assert!(!seen.has_changed().unwrap());
        std::fs::rename(folder.path().join("away"), folder.path().join("ca")).unwrap();
        look_at_certificate(&ca, "127.0.0.1", &tls);
        assert!(seen.has_changed().unwrap());
        seen.mark_unchanged();
    }

    #[test]
    fn what_nodes_are_told() {
        let local: SocketAddr = "10.0.0.1:7443".parse().unwrap();
        let rows = [
            (None, Some(("https://10.0.0.1:7443", "10.0.0.1"))),
            (Some("https://mesh.example:443"), Some(("https://mesh.example:443", "mesh.example"))),
            (Some("https://[fd00::1]:443"), Some(("https://[fd00::1]:443", "fd00::1"))),
            (Some("https://fd00::1:443"), None),
            (Some("http://mesh.example:443"), None),
            (Some("https://mesh.example"), None),
            (Some("https://mesh example:443"), None),
            (Some("https://:443"), None),
            (Some("https://mesh.example:0"), None),
            (Some("https://mesh.example:65536"), None),
            (Some("https://0.0.0.0:443"), None),
            (Some("https://[::]:443"), None),
            (Some("https://a..b:443"), None),
            (Some("https://.b:443"), None),
            (Some("https://b.:443"), None),
            (Some("https://-b:443"), None),
            (Some("https://10.0.0:443"), None),
            (Some("https://10.0.0.256:443"), None),
        ];
        for (wanted, expected) in rows {
            let said = advertised(wanted, local).ok();
            let said = said.as_ref().map(|(address, host)| (address.as_str(), host.as_str()));
            assert_eq!(said, expected, "{wanted:?}");
        }
        assert!(advertised(None, "0.0.0.0:7443".parse().unwrap()).is_err());
    }
}
