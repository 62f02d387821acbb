//! Standard input beside a prompt: when the program waits for input, and when it does not.

use std::process::Stdio;

use rind_tests::cli::{Rind, program};

#[test]
fn a_pipe_or_socket_that_nobody_writes_to_does_not_hold_up_a_prompt() {
    let rind = Rind::default();
    let (reader, writer) = std::io::pipe().unwrap();
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    let theirs: std::os::fd::OwnedFd = theirs.into();
    for stdin in [Stdio::from(reader), Stdio::from(theirs)] {
        let ran = rind.finish(rind.command(&["run", "hello", "--no-plugins"]).stdin(stdin));
        let screen = ran.screen();
        assert!(screen.starts_with("exit 0"), "{screen}");
        assert!(screen.contains("continuing without it"), "{screen}");
    }
    drop((writer, ours));
}

#[test]
fn a_program_that_writes_late_is_waited_for() {
    let rind = Rind::default();
    let line =
        "(sleep 7; echo LATE-LINE) | \"$0\" run hello --provider scripted --no-plugins --json";
    let mut command = rind.command(&["run"]);
    let envs: Vec<_> = command
        .get_envs()
        .filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())))
        .collect();
    command = std::process::Command::new("sh");
    command
        .arg("-c")
        .arg(line)
        .arg(program())
        .env_clear()
        .envs(envs)
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .current_dir(rind.workspace())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let output = command.output().unwrap();
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(shown.contains("LATE-LINE"), "{shown}");
}
