//! Memory, processes, disk and core dumps.

use rind::tool::process::confine::Limits;
use serde_json::json;

use crate::tool::confine::{confined_by, mechanisms};

fn limits(change: impl FnOnce(&mut Limits)) -> Limits {
    let mut limits = Limits::default();
    change(&mut limits);
    limits
}

#[tokio::test]
async fn memory_of_all_processes_of_a_command_is_bounded() {
    for mechanism in mechanisms() {
        let fixture = confined_by(&mechanism, |confinement| {
            confinement.limits = limits(|limits| limits.memory_bytes = 200 << 20);
        })
        .await;
        let one = "perl -e '$x = \"x\" x (130 << 20); sleep 60' &";
        let output = fixture
            .error("bash", json!({ "command": format!("{one} {one} wait") }))
            .await;
        assert!(
            output.contains("more than 200 MiB of memory (`memory_mb`"),
            "{mechanism:?}: {output}"
        );
    }
}

#[tokio::test]
async fn the_disk_and_each_file_are_bounded() {
    for mechanism in mechanisms() {
        let fixture = confined_by(&mechanism, |confinement| {
            confinement.limits = limits(|limits| limits.file_bytes = 1 << 20);
        })
        .await;
        let output = fixture
            .bash("head -c 3000000 /dev/zero > a; stat -c %s a")
            .await;
        assert!(
            output.content.text().contains("1048576"),
            "{mechanism:?}: {}",
            output.content
        );

        let fixture = confined_by(&mechanism, |confinement| {
            confinement.limits = limits(|limits| limits.disk_bytes = 50 << 20);
        })
        .await;
        let output = fixture
            .error("bash", json!({"command": "i=0; while :; do i=$((i+1)); head -c 20000000 /dev/urandom > $i; sleep 0.1; done"}))
            .await;
        assert!(
            output.contains("free on the disk (`disk_mb`"),
            "{mechanism:?}: {output}"
        );
    }
}

#[tokio::test]
async fn the_temporary_folder_is_bounded_where_it_is_in_memory_and_always_removed() {
    for mechanism in mechanisms()
        .into_iter()
        .filter(|mechanism| mechanism.is_apart())
    {
        let fixture = confined_by(&mechanism, |confinement| {
            confinement.limits = limits(|limits| limits.temporary_bytes = 2 << 20);
        })
        .await;
        for path in ["$TMPDIR/a", "/tmp/a"] {
            let output = fixture
                .error(
                    "bash",
                    json!({"command": format!("head -c 5000000 /dev/zero > {path}")}),
                )
                .await;
            assert!(output.contains("No space left"), "{mechanism:?}: {output}");
        }
        let output = fixture.ok("bash", json!({"command": "mkdir $TMPDIR/x; touch $TMPDIR/x/y; chmod 0 $TMPDIR/x; echo $TMPDIR"})).await;
        let folder = output.lines().next().unwrap();
        assert!(
            folder.contains("/rind-") && !std::path::Path::new(folder).exists(),
            "{output}"
        );
    }
}

#[tokio::test]
async fn processes_of_a_command_are_bounded_in_a_namespace_even_for_root() {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    for mechanism in mechanisms() {
        let fixture = confined_by(&mechanism, |confinement| {
            confinement.limits = limits(|limits| limits.processes = 400);
        })
        .await;
        // Root is bound by the process namespace only, which Rind makes and bounds since Linux 6.14.
        let is_bound = fixture
            .bash("cat /proc/sys/kernel/pid_max")
            .await
            .content
            .to_string();
        if mechanism == rind::tool::process::confine::Mechanism::Namespaces {
            assert!(is_bound.starts_with("400\n"), "{release}: {is_bound}");
            let output = fixture
                .bash("for i in $(seq 500); do sleep 20 & done 2>&1 | tail -n 3")
                .await;
            assert!(
                output
                    .content
                    .text()
                    .contains("Resource temporarily unavailable"),
                "{}",
                output.content
            );
        }
        let output = fixture
            .ok("bash", json!({"command": "ulimit -u; ulimit -c"}))
            .await;
        let expected = if mechanism.is_apart() {
            "400\n0\n"
        } else {
            "12688\n0\n"
        };
        assert!(output.starts_with(expected), "{mechanism:?}: {output}");
    }
}
