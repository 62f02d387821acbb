//! Tests of the limits on memory, processes, disk space and core dumps.

use std::os::unix::fs::MetadataExt;

use rind::tool::process::confine::{ConfinementMechanism, Limits, test_confinement};
use serde_json::json;

use crate::tool::Fixture;
use crate::tool::confine::{confined_by, confinement, mechanisms};

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

/// Python script that starts processes which share one block of anonymous memory or fill one each.
/// Arguments: number of processes, MiB of a block, `shared` or `apart`, seconds to sleep.
const MAPS: &str = "import mmap, os, sys, time
n, mib, is_shared = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == 'shared'
def fill():
    m = mmap.mmap(-1, mib << 20)
    for at in range(0, mib << 20, 4096): m[at] = 1
    return m
m = fill() if is_shared else None
for _ in range(n):
    if os.fork() == 0:
        m = m or fill()
        for at in range(0, mib << 20, 4096): m[at] = 2
        time.sleep(float(sys.argv[4])); os._exit(0)
for _ in range(n): os.wait()
print('done')
";

#[tokio::test]
async fn memory_that_processes_share_counts_once_and_all_of_it() {
    for mechanism in mechanisms() {
        let fixture = confined_by(&mechanism, |confinement| {
            confinement.limits = limits(|limits| limits.memory_bytes = 200 << 20);
        })
        .await;
        fixture.put("maps.py", MAPS);
        for command in ["1 300 shared 60", "3 100 apart 60"] {
            let command = format!("/usr/bin/python3 maps.py {command}");
            let output = fixture.error("bash", json!({ "command": command })).await;
            assert!(
                output.contains("more than 200 MiB of memory (`memory_mb`"),
                "{mechanism:?}: {command}: {output}"
            );
        }
        let command = "/usr/bin/python3 maps.py 5 100 shared 1";
        let output = fixture.ok("bash", json!({ "command": command })).await;
        assert!(output.starts_with("done\n"), "{mechanism:?}: {output}");
    }
}

#[tokio::test]
async fn memory_that_a_descriptor_holds_and_no_process_is_bounded() {
    for mechanism in mechanisms() {
        let fixture = confined_by(&mechanism, |confinement| {
            confinement.limits = limits(|limits| {
                limits.memory_bytes = 200 << 20;
                limits.temporary_bytes = 1 << 20;
                limits.disk_bytes = 100 << 20;
            });
        })
        .await;
        let command = "/usr/bin/python3 -c 'import os, time
f = os.memfd_create(\"x\")
for _ in range(800): os.write(f, bytes(1 << 20))
time.sleep(60)'";
        let output = fixture.error("bash", json!({ "command": command })).await;
        assert!(
            output.contains("[stopped: the shared memory of the machine grew by more than"),
            "{mechanism:?}: {output}"
        );
    }
}

#[tokio::test]
async fn whether_processes_are_bounded_is_found_out_and_not_assumed() {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release
        .split('.')
        .map(|part| part.parse::<u32>().unwrap_or(0));
    let is_root = std::fs::metadata("/proc/self").unwrap().uid() == 0;
    let counts_namespaces = (numbers.next(), numbers.next()) >= (Some(6), Some(14));
    for mechanism in mechanisms() {
        let fixture = Fixture::new();
        let mut confinement = confinement(&fixture);
        confinement.mechanism = mechanism.clone();
        let report = test_confinement(&confinement, &fixture.outside(""))
            .await
            .unwrap();
        let expected =
            !is_root || (mechanism == ConfinementMechanism::Namespaces && counts_namespaces);
        assert_eq!(report.bounds_processes, expected, "{mechanism:?} {release}");
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
        .filter(|mechanism| mechanism.hides_outside_files_and_processes())
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
        // Only the process namespace limits the processes of root; Rind creates and limits one
        // since Linux 6.14.
        let is_bound = fixture
            .bash("cat /proc/sys/kernel/pid_max")
            .await
            .content
            .text()
            .into_owned();
        if mechanism == ConfinementMechanism::Namespaces {
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
        let expected = if mechanism.hides_outside_files_and_processes() {
            "400\n0\n"
        } else {
            "12688\n0\n"
        };
        assert!(output.starts_with(expected), "{mechanism:?}: {output}");
    }
}
