//! Tests of tools on real folders and processes.

mod background;
mod call;
mod command;
pub(crate) mod confine;
mod escape;
mod files;

mod policy;
mod shells;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rind::tool::registry::ToolRegistry;
use rind::tool::run::run_tool_call;
use rind::tool::workspace::Workspace;
use rind::tool::{ToolCtx, ToolOutput, builtin};
use serde_json::Value;

/// A workspace with all built-in tools, and beside it a folder that no tool may touch.
pub(crate) struct Fixture {
    folder: tempfile::TempDir,
    tools: ToolRegistry,
    ctx: ToolCtx,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("workspace")).unwrap();
        std::fs::create_dir(folder.path().join("outside")).unwrap();
        std::fs::write(folder.path().join("outside/secret.txt"), "the secret\n").unwrap();
        let workspace =
            Arc::new(Workspace::open_root_folder(&folder.path().join("workspace")).unwrap());
        let mut tools = ToolRegistry::default();
        for tool in builtin::unconfined_built_in_tools(&workspace) {
            tools.add(tool).unwrap();
        }
        Self {
            folder,
            tools,
            ctx: ctx(),
        }
    }

    pub(crate) fn inside(&self, path: &str) -> PathBuf {
        self.folder.path().join("workspace").join(path)
    }

    pub(crate) fn outside(&self, path: &str) -> PathBuf {
        self.folder.path().join("outside").join(path)
    }

    pub(crate) fn put(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.inside(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    pub(crate) fn text(&self, path: &str) -> String {
        std::fs::read_to_string(self.inside(path)).unwrap()
    }

    /// Checks the arguments as the agent would and runs the call.
    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> ToolOutput {
        let entry = self.tools.get(tool).unwrap();
        if let Err(why) = (entry.check)(&arguments) {
            return ToolOutput::from_error_content(why);
        }
        let deadline = rind::tool::run::DEFAULT_TOOL_CALL_DEADLINE;
        let cap = rind::tool::run::DEFAULT_MAX_OUTPUT_BYTES;
        run_tool_call(&*entry.tool, arguments, &self.ctx, deadline, cap)
            .await
            .0
    }

    pub(crate) async fn ok(&self, tool: &str, arguments: Value) -> String {
        let output = self.call(tool, arguments).await;
        assert!(!output.is_error, "{tool}: {}", output.content);
        output.content.to_string()
    }

    pub(crate) async fn error(&self, tool: &str, arguments: Value) -> String {
        let output = self.call(tool, arguments).await;
        assert!(output.is_error, "{tool}: {}", output.content);
        output.content.to_string()
    }
}

fn ctx() -> ToolCtx {
    ToolCtx::new(Default::default(), Default::default())
}

/// Asserts that the output has `count` lines of only a process id, and that these processes are
/// dead.
fn assert_all_gone(output: &str, count: usize) {
    let pids: Vec<u32> = output
        .lines()
        .filter_map(|line| line.parse().ok())
        .collect();
    assert_eq!(pids.len(), count, "{output}");
    for pid in pids {
        assert!(is_gone(pid), "{pid} is alive");
    }
}

fn is_gone(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ")
        .is_none_or(|(_, rest)| rest.starts_with('Z'))
}

/// Waits until the file has this many lines.
async fn until_lines(path: &Path, count: usize) {
    while std::fs::read_to_string(path).is_ok_and(|text| text.lines().count() < count)
        || !path.exists()
    {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

fn link(target: impl AsRef<Path>, at: PathBuf) {
    std::os::unix::fs::symlink(target, at).unwrap();
}

#[test]
fn every_built_in_tool_is_registered_with_an_effect_class() {
    let fixture = Fixture::new();
    let specs: Vec<String> = fixture
        .tools
        .specs()
        .iter()
        .map(|spec| format!("{} {}", spec.name, spec.effect_class))
        .collect();
    let expected = [
        "background read",
        "bash execute",
        "edit_file write",
        "list_files read",
        "read_file read",
        "search read",
        "write_file write",
    ];
    assert_eq!(specs, expected);
    for spec in fixture.tools.specs() {
        let schema = &spec.parameters;
        assert_eq!(schema["additionalProperties"], false, "{schema}");
        for property in schema["properties"].as_object().unwrap().values() {
            assert!(
                property["description"].is_string(),
                "{}: {property}",
                spec.name
            );
        }
    }
}
