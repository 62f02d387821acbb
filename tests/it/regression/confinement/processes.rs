//! Tests that a command does not reach other processes, their shared memory and descriptors, or
//! files outside its view.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rind_tests::cli::{PATIENCE, Rind, program};

use serde_json::json;

use crate::tool::confine::{confined_by, kept, mechanisms, n_with, some_time};

/// A process of the same user that a command must not affect.
struct Victim(Child);

impl Victim {
    fn start() -> Self {
        Self(Command::new("sleep").arg("120").spawn().unwrap())
    }

    /// Returns the resource limits, priority, allowed processors and scheduling policy of the
    /// process.
    fn state(&self) -> Vec<String> {
        let of = |name: &str| fs::read_to_string(format!("/proc/{}/{name}", self.0.id())).unwrap();
        let stat = of("stat");
        let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
        let status = of("status");
        let processors = status
            .lines()
            .find(|line| line.starts_with("Cpus_allowed:"));
        vec![
            of("limits"),
            fields[16].to_owned(),
            processors.unwrap().to_owned(),
            fields[38].to_owned(),
        ]
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn a_command_cannot_change_limits_or_scheduling_of_another_process() {
    let victim = Victim::start();
    let before = victim.state();
    let id = victim.0.id();
    let host = std::process::id();
    for mechanism in mechanisms() {
        let fixture = confined_by(&mechanism, |_| {}).await;
        for command in [
            format!("prlimit --pid {host} --fsize=0:0"),
            format!("prlimit --pid {id} --fsize=0:0"),
            format!("prlimit --pid {id} --nofile=3:3"),
            format!("prlimit --pid {id} --core=unlimited:unlimited --cpu=1:1"),
            format!("renice -n 19 -p {id}"),
            format!("renice -n 19 -u $(id -u) && renice -n 19 -g {id}"),
            format!("taskset -p 1 {id}"),
            format!("ionice -c 3 -p {id}"),
            format!("chrt -b -p 0 {id}"),
            format!("kill -9 {id}"),
        ] {
            let output = fixture.bash(&command).await;
            assert!(
                output.is_error,
                "{mechanism:?} {command}: {}",
                output.content
            );
        }
        assert_eq!(victim.state(), before, "{mechanism:?}");
        fixture
            .bash("prlimit --pid $PPID --fsize=0:0; prlimit --pid 1 --nofile=3:3")
            .await;
        fixture.put("x", "after");
    }
}

#[test]
fn what_a_command_hides_ends_with_a_host_that_is_killed() {
    for mechanism in ["namespaces", "landlock", "bwrap", "off"] {
        let fixture = crate::tool::confine::unconfined();
        let time = some_time(&fixture);
        let rind = Rind::with_script(&format!(
            "[[reply]]\ntool_calls = [{{ name = \"bash\", arguments = {{ command = \"(setsid env -i sleep {time} &); sleep {time}\" }} }}]\n"
        ));
        if mechanism == "bwrap"
            && !mechanisms()
                .iter()
                .any(|found| format!("{found:?}").contains("Bwrap"))
        {
            continue;
        }
        rind.config(&match mechanism {
            "off" => "[sandbox]\nbash = \"off\"\n".to_owned(),
            _ => format!("[sandbox]\nbash = \"required\"\nmechanism = \"{mechanism}\"\n"),
        });
        let mut running = rind.start(&["run", "work", "--yes"]);
        running.wait_until(|_| n_with(&time) >= 2);
        running.signal("KILL");
        let _ = running.end();
        let until = Instant::now() + PATIENCE;
        while n_with(&time) > 0 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(n_with(&time), 0, "{mechanism}");
    }
}

#[tokio::test]
async fn shared_memory_and_queues_of_others_are_out_of_reach() {
    let made = Command::new("ipcmk").args(["-M", "64"]).output().unwrap();
    let made = String::from_utf8(made.stdout).unwrap();
    let id = made.rsplit(' ').next().unwrap().trim().to_owned();
    for mechanism in mechanisms() {
        let fixture = confined_by(&mechanism, |_| {}).await;
        for command in [
            format!("perl -e 'shmread({id}, $b, 0, 5) or die $!'"),
            format!("perl -e 'shmwrite({id}, \"x\", 0, 1) or die $!'"),
            format!("ipcrm -m {id}"),
        ] {
            let output = fixture.bash(&command).await;
            assert!(
                output.is_error,
                "{mechanism:?} {command}: {}",
                output.content
            );
        }
        let own = fixture.bash("ipcmk -M 64").await;
        assert_eq!(
            own.is_error,
            !mechanism.hides_outside_files_and_processes(),
            "{}",
            own.content
        );
    }
    let removed = Command::new("ipcrm").args(["-m", &id]).status().unwrap();
    assert!(removed.success(), "it is still there");
}

#[test]
fn descriptors_that_were_handed_to_the_program_do_not_reach_commands() {
    for sandbox in [
        "mechanism = \"namespaces\"",
        "mechanism = \"landlock\"",
        "bash = \"off\"",
    ] {
        let rind = Rind::with_script(
            "[[reply]]\ntool_calls = [{ name = \"bash\", arguments = { command = \"ls -l /proc/self/fd/; cat <&7\" } }]\n[[reply]]\ntext = \"Done.\"\n",
        );
        rind.config(&format!("[sandbox]\n{sandbox}\n"));
        fs::write(rind.user_home().join("handed"), "the secret\n").unwrap();
        let direct = rind.command(&["run", "work", "--yes", "--json"]);
        let mut command = Command::new("sh");
        command
            .args([
                "-c",
                "exec 7<\"$HOME/handed\" 9>>\"$HOME/handed\"; exec \"$0\" \"$@\"",
            ])
            .arg(program())
            .args(direct.get_args())
            .current_dir(direct.get_current_dir().unwrap())
            .env_clear()
            .stdin(Stdio::null());
        for (name, value) in direct.get_envs() {
            command.env(name, value.unwrap_or_default());
        }
        let ran = rind.finish(&mut command).exits(0);
        assert!(ran.stdout.contains("tool-end"), "{}", ran.stdout);
        assert!(
            !ran.stdout.contains("the secret"),
            "{sandbox}: {}",
            ran.stdout
        );
        assert!(!ran.stdout.contains("handed"), "{sandbox}: {}", ran.stdout);
    }
}

#[tokio::test]
async fn modes_owners_and_times_of_files_outside_stay_where_files_outside_are_not_there() {
    for mechanism in mechanisms()
        .into_iter()
        .filter(|mechanism| mechanism.hides_outside_files_and_processes())
    {
        let fixture = confined_by(&mechanism, |_| {}).await;
        let secret = fixture.outside("secret.txt");
        fs::set_permissions(&secret, PermissionsExt::from_mode(0o600)).unwrap();
        let before = fs::metadata(&secret).unwrap();
        let path = secret.display();
        for command in [
            format!("chmod a+r {path}"),
            format!("chown 65534 {path}"),
            format!("touch -c -d 2001-01-01 {path} && stat {path}"),
            format!("stat {path}"),
            "chmod 777 /etc /usr /".to_owned(),
        ] {
            fixture.refused(&command).await;
        }
        let after = fs::metadata(&secret).unwrap();
        assert_eq!(
            (before.mode(), before.ctime(), before.ctime_nsec()),
            (after.mode(), after.ctime(), after.ctime_nsec())
        );
    }
}

#[tokio::test]
async fn no_way_of_making_a_file_gives_it_a_set_id_mode() {
    for mechanism in mechanisms() {
        let fixture = confined_by(&mechanism, |_| {}).await;
        for command in [
            "cp /bin/true a && chmod u+s a",
            "cp /bin/true a && chmod 2755 a",
            "install -m 4755 /bin/true b",
            "perl -e 'use Fcntl; sysopen(F, \"c\", O_CREAT|O_WRONLY, 04755) or die $!'",
            "perl -e '$p = \"d\"; syscall(259, -100, $p, 0104755, 0) >= 0 or die $!'",
            "perl -e '$p = \"e\"; $h = pack(\"QQQ\", 0101, 04755, 0); syscall(437, -100, $p, $h, 24) >= 0 or die $!' 2>&1 | sed 's/Function not implemented/not permitted/'; false",
            "perl -e '$p = \"a\"; syscall(0x40000000 + 90, $p, 04755) >= 0 or die $!'",
            "perl -e 'open(F, \"a\"); syscall(91, fileno(F), 04755) >= 0 or die $!'",
            "perl -e '$p = \"a\"; syscall(452, -100, $p, 04755, 0) >= 0 or die $!'",
        ] {
            if !cfg!(target_arch = "x86_64") && command.contains("syscall") {
                continue;
            }
            fixture.refused(command).await;
        }
        for entry in fs::read_dir(fixture.inside("")).unwrap().flatten() {
            let mode = entry.metadata().unwrap().mode();
            assert_eq!(mode & 0o6000, 0, "{mechanism:?}: {entry:?}");
        }
        fixture
            .ok(
                "bash",
                serde_json::json!({"command": "chmod 755 a; umask 077; mkdir f; chmod 1777 f"}),
            )
            .await;
    }
}

#[tokio::test]
async fn what_an_unconfined_command_hides_in_the_background_is_stopped_and_said() {
    let fixture = kept();
    let time = some_time(&fixture);
    let command =
        format!("(setsid env -i setsid sleep {time} >/dev/null 2>&1 &) ; sleep 0.3; echo done");
    let output = fixture.ok("bash", json!({ "command": command })).await;
    assert_eq!(
        output,
        "done\n[exit code 0; processes left in the background were stopped]"
    );
    assert_eq!(n_with(&time), 0);
    for (command, ending) in [
        ("exit 7", "exit code 7"),
        ("kill -9 $$", "ended by signal 9"),
        ("sleep 0.01 & wait; kill -TERM $$", "ended by signal 15"),
        ("/no/such/program", "exit code 127"),
        ("cat; readlink /proc/self/fd/0 >&2; exit 3", "exit code 3"),
    ] {
        let output = fixture.error("bash", json!({ "command": command })).await;
        assert!(output.ends_with(&format!("[{ending}]")), "{output}");
    }
    let stuck = format!("trap '' TERM; setsid env -i sleep {time} & sleep {time}");
    let output = fixture
        .error("bash", json!({"command": stuck, "timeout_seconds": 1}))
        .await;
    assert!(output.contains("longer than 1 s"), "{output}");
    assert_eq!(n_with(&time), 0);
}

#[tokio::test]
async fn passwords_and_keys_of_the_machine_are_not_there_in_namespaces_even_for_root() {
    for mechanism in mechanisms()
        .iter()
        .filter(|mechanism| mechanism.hides_outside_files_and_processes())
    {
        let fixture = confined_by(mechanism, |_| {}).await;
        let command = "cat /etc/shadow /etc/gshadow; cat /etc/ssh/* /etc/ssl/private/* /etc/sudoers.d/* 2>/dev/null; \
                       getent passwd root >/dev/null && echo done";
        let output = fixture.bash(command).await.content.to_string();
        let refused = "cat: /etc/shadow: Permission denied\ncat: /etc/gshadow: Permission denied\n";
        assert_eq!(
            output.replace(refused, ""),
            "done\n[exit code 0]",
            "{mechanism:?}"
        );
    }
}
