//! Tests of a model that makes too many tool calls, and of tools that compute for too long.

use rind::tool::Tool;

use super::*;

/// Returns one answer with `n` calls of the tool.
fn calls(n: usize, name: &str) -> Reply {
    (0..n).fold(Reply::default(), |reply, _| {
        reply.with_tool_call(name, json!({}))
    })
}

/// Returns a read-only tool that takes `millis`, and the highest number of its calls that ran at
/// once.
fn slow(millis: u64) -> (impl Tool + 'static, Arc<AtomicUsize>) {
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let seen = most.clone();
    let tool = NativeTool::new("look", EffectClass::Read, move |_| {
        let (running, seen) = (running.clone(), seen.clone());
        Box::pin(async move {
            seen.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(millis)).await;
            running.fetch_sub(1, Ordering::SeqCst);
            ToolOutput::ok("seen")
        })
    });
    (tool, most)
}

#[tokio::test]
async fn an_answer_makes_so_many_calls_and_only_a_few_at_once() {
    let (tool, most) = slow(1);
    let script = vec![calls(20_000, "look"), Reply::text("done")];
    let mut running = Setup::new(script).tool(tool).build();
    let outcome = running.turn("go on").await;
    assert_eq!(outcome.output, "done");
    assert_eq!(running.results().len(), 128);
    assert!(most.load(Ordering::SeqCst) <= 8, "{most:?}");
    check_pairs(&running.session.messages());
    let told = "[19872 of the 20000 tool calls of your answer were left out and not run: an answer makes at most 128 \
                (agent.max_calls)]";
    let request = running.request(1);
    assert_eq!(request.last().unwrap(), &format!("user: {told}"));
    let is_noticed = |event: &Event| matches!(event, Event::Notice { text, .. } if text == told);
    assert!(running.events.iter().any(is_noticed));
}

#[tokio::test]
async fn many_calls_that_hang_end_soon_after_ctrl_c() {
    let (tool, most) = slow(3_600_000);
    let mut setup = Setup::new(vec![calls(5_000, "look")]).tool(tool);
    setup.config.max_calls = 5_000;
    let mut running = setup.build();
    let cancel = CancellationToken::new();
    let stop = cancel.clone();
    let interrupt = tokio::spawn(async move {
        while most.load(Ordering::SeqCst) < 8 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        stop.cancel();
        Instant::now()
    });
    let outcome = running.agent.turn("go on").until(&cancel).await;
    let took = interrupt.await.unwrap().elapsed();
    assert_eq!(outcome.unwrap().summary.stop, StopReason::Cancelled);
    check_pairs(&running.session.messages());
    // Running tools get time to report what they did so far, and these do not use it.
    assert!(took < Duration::from_secs(60), "{took:?}");
}

/// Creates a workspace with a file of one long line.
fn long_line() -> (tempfile::TempDir, Arc<Workspace>) {
    let place = tempfile::tempdir().unwrap();
    std::fs::write(place.path().join("a.txt"), "a".repeat(4_000_000)).unwrap();
    let workspace = Arc::new(Workspace::open_root_folder(place.path()).unwrap());
    (place, workspace)
}

/// Runs the tool `search` with its deadline, as an agent does.
async fn search(
    workspace: &Arc<Workspace>,
    arguments: serde_json::Value,
    cancel: &CancellationToken,
) -> ToolOutput {
    let tools = builtin::unconfined_built_in_tools(workspace);
    let tool = tools
        .iter()
        .find(|tool| tool.spec().name == "search")
        .unwrap();
    let ctx = rind::tool::ToolCtx::new(Default::default(), cancel.clone());
    let deadline = Duration::from_secs(600);
    let ran = rind::tool::run::run_tool_call(&**tool, arguments, &ctx, deadline, 1 << 20).await;
    ran.0
}

#[test]
fn work_that_looks_at_no_token_is_left_behind() {
    let (_place, workspace) = long_line();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let started = Instant::now();
    let hangs = |_: &Workspace, _: &CancellationToken| {
        std::thread::sleep(Duration::from_secs(300));
        Ok(())
    };
    let (called_off, late) = runtime.block_on(async {
        let cancel = CancellationToken::new();
        cancel.cancel();
        let limit = Duration::from_secs(300);
        let called_off = workspace
            .run_blocking_read_only(&cancel, limit, hangs)
            .await;
        let limit = Duration::from_millis(100);
        let late = workspace
            .run_blocking_read_only(&CancellationToken::new(), limit, hangs)
            .await;
        (called_off, late)
    });
    assert!(started.elapsed() < Duration::from_secs(30));
    assert_eq!(called_off.unwrap_err().to_string(), "cancelled");
    let late = late.unwrap_err().to_string();
    assert!(
        late.starts_with("stopped: the search took longer than"),
        "{late}"
    );
    runtime.shutdown_background();
}

#[tokio::test]
async fn the_costliest_pattern_that_is_taken_ends_within_a_long_line() {
    let (_place, workspace) = long_line();
    let asked = json!({"pattern": "(a{1,100}){1,30}b"});
    let output = search(&workspace, asked, &CancellationToken::new()).await;
    assert_eq!(output.content, "[no match]");
}

#[tokio::test]
async fn nested_repetitions_that_would_take_minutes_are_refused_with_what_to_write_instead() {
    let (_place, workspace) = long_line();
    for pattern in [
        "((a{1,50}){1,50}){1,50}b",
        "((a?){100}){100}b",
        "(\\w{1,60}){1,60}b",
    ] {
        let asked = json!({"pattern": pattern});
        let output = search(&workspace, asked, &CancellationToken::new()).await;
        assert!(output.is_error, "{pattern}: {}", output.content);
        assert!(
            output
                .content
                .text()
                .contains("use fewer or smaller repetitions"),
            "{pattern}: {}",
            output.content
        );
    }
}

#[tokio::test]
async fn a_pattern_that_is_refused_is_not_quoted_whole_and_does_not_bring_its_own_advice() {
    let (_place, workspace) = long_line();
    let pattern = format!("compiled regex exceeds size limit{}(", "a".repeat(100_000));
    let output = search(
        &workspace,
        json!({ "pattern": pattern }),
        &CancellationToken::new(),
    )
    .await;
    let said = output.content.to_string();
    assert!(output.is_error && said.len() < 500, "{said}");
    assert!(said.ends_with("unclosed group"), "{said}");
}
