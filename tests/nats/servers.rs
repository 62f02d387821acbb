//! A server, or a cluster of three, in a temporary folder.

use std::io::Read;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rind_nats::{DeclaredDiskSyncInterval, NatsConfig};
use rustix::process::{Pid, Signal, kill_process};

use crate::server_program;

/// Setup of the servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerSetup {
    /// Number of servers: 1 or 3.
    pub n_servers: usize,
    /// Whether the server syncs each message to the disk before it acknowledges it.
    pub is_synced: bool,
    /// Maximum size of all streams of a server, in MB.
    pub max_file_mb: u32,
    /// Size in MB of a separate in-memory file system for each server. `None` uses a plain folder.
    pub disk_mb: Option<u32>,
}

impl ServerSetup {
    /// A single server.
    pub const ONE: Self = Self {
        n_servers: 1,
        is_synced: false,
        max_file_mb: 4_096,
        disk_mb: None,
    };
    /// A cluster of three.
    pub const THREE: Self = Self {
        n_servers: 3,
        is_synced: false,
        max_file_mb: 4_096,
        disk_mb: None,
    };
}

/// Running servers. Dropping this kills them.
#[derive(Debug)]
pub struct NatsServers {
    folder: tempfile::TempDir,
    servers: Vec<OneServer>,
    setup: ServerSetup,
}

#[derive(Debug)]
struct OneServer {
    port: u16,
    config: PathBuf,
    child: Option<Child>,
    /// Process that keeps the mount namespace with the server's disk alive, if the server has its
    /// own disk.
    disk: Option<Child>,
}

impl NatsServers {
    /// Starts servers and waits until they accept connections.
    ///
    /// # Panics
    /// A server does not start.
    #[must_use]
    pub fn start(setup: ServerSetup) -> Self {
        Self::start_with(setup, "")
    }

    /// Starts servers whose settings have further lines, such as users and their permissions.
    ///
    /// # Panics
    /// A server does not start.
    #[must_use]
    pub fn start_with(setup: ServerSetup, more: &str) -> Self {
        let folder = tempfile::Builder::new()
            .prefix("rind-nats-")
            .tempdir()
            .unwrap();
        let ports = free_ports(2 * setup.n_servers);
        let (clients, routes) = ports.split_at(setup.n_servers);
        let mut servers = Vec::new();
        for (n, (port, route)) in clients.iter().zip(routes).enumerate() {
            let store = folder.path().join(format!("server-{n}"));
            let sync = if setup.is_synced {
                "sync_interval: always"
            } else {
                ""
            };
            let mut text = format!(
                "server_name: s{n}\nlisten: \"127.0.0.1:{port}\"\njetstream {{ store_dir: \"{}\", \
                 max_mem: 256MB, max_file: {}MB\n {sync} }}\n{more}\n",
                store.display(),
                setup.max_file_mb
            );
            if setup.n_servers > 1 {
                let urls: Vec<String> = routes
                    .iter()
                    .map(|route| format!("\"nats://127.0.0.1:{route}\""))
                    .collect();
                text.push_str(&format!(
                    "cluster {{ name: rind, listen: \"127.0.0.1:{route}\", routes: [{}] }}\n",
                    urls.join(", ")
                ));
            }
            let config = folder.path().join(format!("server-{n}.conf"));
            std::fs::write(&config, text).unwrap();
            servers.push(OneServer {
                port: *port,
                config,
                child: None,
                disk: setup.disk_mb.map(|size| mount_disk(&store, size)),
            });
        }
        let mut all = Self {
            folder,
            servers,
            setup,
        };
        (0..setup.n_servers).for_each(|n| all.start_server(n));
        all
    }

    /// Starts a server that is not running, with its previous folder.
    ///
    /// # Panics
    /// The server does not start.
    pub fn start_server(&mut self, n: usize) {
        let log =
            std::fs::File::create(self.folder.path().join(format!("server-{n}.log"))).unwrap();
        let server = &mut self.servers[n];
        let mut program = match &server.disk {
            None => Command::new(server_program()),
            Some(holder) => {
                let mut program = Command::new("nsenter");
                let id = holder.id().to_string();
                program
                    .args([
                        "--target",
                        &id,
                        "--user",
                        "--preserve-credentials",
                        "--mount",
                    ])
                    .arg(server_program());
                program
            }
        };
        let child = program
            .arg("-c")
            .arg(&server.config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        server.child = Some(child);
        let began = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", server.port)).is_err() {
            assert!(
                began.elapsed() < Duration::from_secs(30),
                "server {n} does not start: {}",
                self.log(n)
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Returns the log of a server.
    #[must_use]
    pub fn log(&self, n: usize) -> String {
        let path = self.folder.path().join(format!("server-{n}.log"));
        std::fs::read_to_string(path).unwrap_or_default()
    }

    /// Returns the port of a server.
    #[must_use]
    pub fn port(&self, n: usize) -> u16 {
        self.servers[n].port
    }

    /// Returns the addresses of all servers, with commas between.
    #[must_use]
    pub fn urls(&self) -> String {
        let urls = self
            .servers
            .iter()
            .map(|server| format!("nats://127.0.0.1:{}", server.port));
        urls.collect::<Vec<_>>().join(",")
    }

    /// Returns settings for a tenant on these servers, with few streams and short leases.
    ///
    /// # Panics
    /// The name of the tenant is invalid.
    #[must_use]
    pub fn config(&self, tenant: &str) -> NatsConfig {
        let sync = match self.setup.is_synced {
            true => DeclaredDiskSyncInterval::Always,
            false => DeclaredDiskSyncInterval::Interval(Duration::from_secs(120)),
        };
        NatsConfig::new(&self.urls(), tenant)
            .unwrap()
            .with_replicas(self.setup.n_servers)
            .with_partitions(2)
            .with_lease(Duration::from_secs(4))
            .with_retry_duration(Duration::from_secs(30))
            .with_declared_disk_sync_interval(sync)
    }

    /// Returns the resident memory of a server in kB, and its number of open files.
    ///
    /// # Panics
    /// The server is not running.
    #[must_use]
    pub fn memory_and_files(&self, n: usize) -> (u64, usize) {
        process_memory_and_files(self.servers[n].child.as_ref().unwrap().id())
    }

    /// Returns the number of the server that leads a stream; `None` if there is none now.
    #[must_use]
    pub fn leader(&self, stream: &str) -> Option<usize> {
        let leader = self.stream_info(stream)?.cluster?.leader?;
        leader.strip_prefix('s')?.parse().ok()
    }

    fn stream_info(&self, stream: &str) -> Option<async_nats::jetstream::stream::Info> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .ok()?;
        runtime.block_on(async {
            let urls: Vec<String> = self.urls().split(',').map(str::to_owned).collect();
            let client = async_nats::connect(urls).await.ok()?;
            let context = async_nats::jetstream::new(client);
            let found = context.get_stream(stream).await.ok()?;
            Some(found.cached_info().clone())
        })
    }

    /// Whether all servers have all messages of a stream.
    #[must_use]
    pub fn are_current(&self, stream: &str) -> bool {
        let found = self.stream_info(stream);
        let cluster = found.and_then(|info| info.cluster);
        cluster.is_some_and(|cluster| {
            let others = cluster.replicas;
            others.len() + 1 == self.servers.len() && others.iter().all(|peer| peer.current)
        })
    }

    /// Writes a file to the disk of a server until it is full.
    ///
    /// # Panics
    /// The server has no disk of its own.
    pub fn fill_disk(&self, n: usize) {
        let mut file = std::fs::File::create(self.filler(n)).unwrap();
        let block = [7; 1 << 16];
        while std::io::Write::write_all(&mut file, &block).is_ok() {}
    }

    /// Removes the file that fills the disk.
    ///
    /// # Panics
    /// The filler file does not exist.
    pub fn free_disk(&self, n: usize) {
        std::fs::remove_file(self.filler(n)).unwrap();
    }

    /// Path of the filler file, by way of `/proc`, because the disk is in another mount namespace.
    fn filler(&self, n: usize) -> PathBuf {
        let pid = self.servers[n].disk.as_ref().unwrap().id();
        let root = PathBuf::from(format!("/proc/{pid}/root"));
        let folder = self.folder.path().strip_prefix("/").unwrap();
        root.join(folder).join(format!("server-{n}")).join("filler")
    }

    /// Removes the folder of a server that is not running, as a lost disk would.
    ///
    /// # Panics
    /// The server is running, or has no folder.
    pub fn lose_disk(&self, n: usize) {
        assert!(self.servers[n].child.is_none());
        std::fs::remove_dir_all(self.folder.path().join(format!("server-{n}"))).unwrap();
    }

    /// Kills a server with SIGKILL, as in a crash.
    ///
    /// # Panics
    /// The server is not running.
    pub fn kill(&mut self, n: usize) {
        let mut child = self.servers[n].child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Stops (`true`) or continues a server without ending it.
    ///
    /// # Panics
    /// The server is not running.
    pub fn pause(&self, n: usize, is_paused: bool) {
        let child = self.servers[n].child.as_ref().unwrap();
        let pid = Pid::from_child(child);
        let signal = if is_paused {
            Signal::STOP
        } else {
            Signal::CONT
        };
        kill_process(pid, signal).unwrap();
        // Waits for all threads, because a thread that is not stopped yet can still acknowledge a
        // message.
        while is_paused && !is_stopped(child.id()) {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Mounts an in-memory file system on a folder, in a mount namespace that the returned process
/// keeps alive.
fn mount_disk(folder: &Path, size_mb: u32) -> Child {
    std::fs::create_dir_all(folder).unwrap();
    let mount = "mount -t tmpfs -o size=$0m tmpfs \"$1\" && echo mounted && exec sleep infinity";
    let mut holder = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", mount])
        .arg(size_mb.to_string())
        .arg(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = [0; 7];
    holder.stdout.take().unwrap().read_exact(&mut said).unwrap();
    holder
}

/// Whether all threads of a process are stopped.
fn is_stopped(pid: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    threads.flatten().all(|thread| {
        let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        // The state follows the program's name, which is in parentheses.
        let state = stat.rsplit(") ").next();
        state.is_none_or(|state| state.starts_with('T') || state.is_empty())
    })
}

impl Drop for NatsServers {
    fn drop(&mut self) {
        for child in self
            .servers
            .iter_mut()
            .flat_map(|server| [&mut server.child, &mut server.disk])
            .flatten()
        {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Returns the resident memory of a process in kB, and its number of open files.
///
/// # Panics
/// The process has ended.
#[must_use]
pub fn process_memory_and_files(pid: u32) -> (u64, usize) {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap();
    let memory = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    let files = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    (memory, files.count())
}

/// Returns ports on which no program listens.
fn free_ports(n: usize) -> Vec<u16> {
    let listeners: Vec<TcpListener> = (0..n)
        .map(|_| TcpListener::bind(("127.0.0.1", 0)).unwrap())
        .collect();
    let ports = listeners
        .iter()
        .map(|listener| listener.local_addr().unwrap().port());
    ports.collect()
}
