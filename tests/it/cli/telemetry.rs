//! Traces for OpenTelemetry: what a collector receives, what it must never receive, and that the
//! program does not wait for it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use insta::assert_snapshot;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value::Value};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use rind_tests::cli::{Ran, Rind};
use rind_tests::server::{Received, Reply, Server, closed_port};

/// Words from the turn's texts, none of which a collector may receive.
const SAID: [&str; 6] = [
    "starfish", "anemone", "limpet", "cuttle", "barnacle", "urchin",
];

/// A model that starts a subagent, which reads a file, fails to read another one, and is refused a
/// command.
const SCRIPT: &str = r#"
    [[reply]]
    when = { contains = "go on" }
    text = "I will ask, urchin."
    tool_calls = [{ name = "act", arguments = { what = "run", text = "Look into starfish", tools = ["read_file", "bash"] } }]
    [[reply]]
    when = { contains = "Look into" }
    tool_calls = [
        { name = "read_file", arguments = { path = "anemone.txt" } },
        { name = "read_file", arguments = { path = "limpet.txt" } },
        { name = "bash", arguments = { command = "echo cuttle" } },
        { name = "no such, urchin", arguments = {} },
    ]
    [[reply]]
    when = { after_tool = "no such, urchin" }
    text = "It says barnacle."
    [[reply]]
    text = "Done, urchin."
    usage = { input_tokens = 1000, output_tokens = 777, cache_read_tokens = 600, cache_write_tokens = 100 }
"#;

fn busy() -> Rind {
    let rind = Rind::with_script(SCRIPT);
    rind.managed("external")
        .managed("hostile")
        .managed("loop-detection");
    rind.file("anemone.txt", "barnacle\n");
    rind.config(
        "[[tools.rules]]\ntool = \"bash\"\ndecision = \"deny\"\n\
         [plugins.hostile.config]\nhow = \"error\"\n\
         [plugins.hostile.hooks.pre-tool]\non_failure = \"skip\"\n",
    );
    rind
}

fn run(rind: &Rind, variables: &[(&str, &str)]) -> Ran {
    let mut command = rind.command(&["run", "go on, starfish", "--yes"]);
    command.envs(variables.iter().copied());
    tokio::task::block_in_place(|| rind.finish(&mut command))
}

async fn collector() -> (Server, String) {
    let server = Server::start(|_: &Received| Reply::ok("")).await;
    let endpoint = server.at("127.0.0.1", "");
    (server, endpoint)
}

fn value(value: &Option<AnyValue>) -> String {
    match value.as_ref().and_then(|value| value.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::BoolValue(is)) => is.to_string(),
        Some(Value::IntValue(n)) => n.to_string(),
        Some(Value::DoubleValue(n)) => n.to_string(),
        Some(Value::ArrayValue(list)) => {
            let values = list.values.iter();
            let texts: Vec<String> = values.map(|one| self::value(&Some(one.clone()))).collect();
            format!("[{}]", texts.join(", "))
        }
        other => format!("{other:?}"),
    }
}

fn attributes(list: &[KeyValue]) -> BTreeMap<String, String> {
    let all: BTreeMap<String, String> = list
        .iter()
        .map(|one| (one.key.clone(), value(&one.value)))
        .collect();
    assert_eq!(all.len(), list.len(), "no name comes twice: {list:?}");
    all
}

/// Attributes of the resource, and the received spans in the order in which they started.
fn arrived(server: &Server) -> (BTreeMap<String, String>, Vec<Span>) {
    let mut resource = BTreeMap::new();
    let mut spans = Vec::new();
    for request in server.received() {
        assert_eq!(request.line, "POST /v1/traces");
        assert!(request.has("content-type: application/x-protobuf"));
        for word in SAID {
            let is_in = request
                .body
                .windows(word.len())
                .any(|part| part == word.as_bytes());
            assert!(!is_in, "`{word}` was sent");
        }
        let sent = ExportTraceServiceRequest::decode(&*request.body).unwrap();
        for group in sent.resource_spans {
            resource = attributes(&group.resource.unwrap().attributes);
            spans.extend(group.scope_spans.into_iter().flat_map(|scope| scope.spans));
        }
    }
    spans.sort_by_key(|span| span.start_time_unix_nano);
    (resource, spans)
}

/// Draws a span and its descendants with name, attributes, events and failures. Attributes that
/// differ between runs are masked.
fn draw(span: &Span, spans: &[Span], level: usize, lines: &mut Vec<String>) {
    let indent = "  ".repeat(level);
    let kind = span.kind().as_str_name().trim_start_matches("SPAN_KIND_");
    let failed = match span.status.as_ref().map(|status| status.code) {
        Some(2) => " ERROR",
        _ => "",
    };
    lines.push(format!("{indent}{} {kind}{failed}", span.name));
    for (name, value) in attributes(&span.attributes) {
        let value = match &*name {
            "gen_ai.conversation.id" | "gen_ai.agent.id" | "rind.hooks.micros" => "[…]".to_owned(),
            // Token counts that the script does not set are estimates, which depend on the names of
            // folders.
            name if name.starts_with("gen_ai.usage") => match &*value {
                "0" | "1000" | "777" | "600" | "100" => value,
                _ => "[N]".to_owned(),
            },
            _ => value,
        };
        lines.push(format!("{indent}  - {name} = {value}"));
    }
    for event in &span.events {
        let mut all = attributes(&event.attributes);
        all.remove("rind.micros");
        let said: Vec<String> = all.values().cloned().collect();
        let line = format!("{indent}  * {} {}", event.name, said.join(" "));
        lines.push(line.trim_end().to_owned());
    }
    let below = spans
        .iter()
        .filter(|other| other.parent_span_id == span.span_id);
    below.for_each(|other| draw(other, spans, level + 1, lines));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_is_a_tree_of_spans_without_a_word_of_what_was_said() {
    let (server, endpoint) = collector().await;
    let ran = run(
        &busy(),
        &[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint),
            ("OTEL_EXPORTER_OTLP_HEADERS", "x-team=tides"),
            ("OTEL_SERVICE_NAME", "station"),
            (
                "OTEL_RESOURCE_ATTRIBUTES",
                "deployment.environment.name=pier",
            ),
        ],
    )
    .exits(0);
    assert!(!ran.stderr.contains("OpenTelemetry"), "{}", ran.stderr);
    assert!(
        server
            .received()
            .iter()
            .all(|request| request.has("x-team: tides"))
    );
    let (resource, spans) = arrived(&server);
    assert_eq!(resource["service.name"], "station");
    assert_eq!(resource["deployment.environment.name"], "pier");
    let traces: Vec<_> = spans.iter().map(|span| &span.trace_id).collect();
    assert!(traces.iter().all(|id| *id == traces[0]));
    assert!(
        spans
            .iter()
            .all(|span| span.start_time_unix_nano <= span.end_time_unix_nano)
    );
    let session = |span: &Span| attributes(&span.attributes)["gen_ai.conversation.id"].clone();
    assert!(spans.iter().all(|span| ran.stderr.contains(&session(span))));
    let mut lines = Vec::new();
    let roots = spans.iter().filter(|span| span.parent_span_id.is_empty());
    roots.for_each(|root| draw(root, &spans, 0, &mut lines));
    assert_snapshot!(lines.join("\n"), @r"
    invoke_agent main INTERNAL
      - gen_ai.agent.name = main
      - gen_ai.conversation.id = […]
      - gen_ai.operation.name = invoke_agent
      - gen_ai.provider.name = scripted
      - gen_ai.usage.cache_creation.input_tokens = 100
      - gen_ai.usage.cache_read.input_tokens = 600
      - gen_ai.usage.input_tokens = [N]
      - gen_ai.usage.output_tokens = [N]
      - rind.decision = direct
      - rind.hooks.calls = 8
      - rind.hooks.micros = […]
      - rind.steps = 2
      - rind.stop = done
      - rind.tool_calls = 1
      - rind.turn = 1
      chat scripted CLIENT
        - gen_ai.conversation.id = […]
        - gen_ai.operation.name = chat
        - gen_ai.provider.name = scripted
        - gen_ai.request.model = scripted
        - gen_ai.response.finish_reasons = [tool_calls]
        - gen_ai.usage.cache_creation.input_tokens = 0
        - gen_ai.usage.cache_read.input_tokens = 0
        - gen_ai.usage.input_tokens = [N]
        - gen_ai.usage.output_tokens = [N]
        - rind.step = 1
        - rind.turn = 1
      execute_tool act INTERNAL
        - gen_ai.conversation.id = […]
        - gen_ai.operation.name = execute_tool
        - gen_ai.tool.call.id = call_1
        - gen_ai.tool.name = act
        - gen_ai.tool.type = function
        - rind.plugin = external
        - rind.step = 1
        - rind.tool.effect_class = external
        - rind.turn = 1
        * rind.hook failed hostile pre-tool
        * rind.tool.start
        * rind.hook failed hostile post-tool
        invoke_agent subagent INTERNAL
          - gen_ai.agent.id = […]
          - gen_ai.agent.name = subagent
          - gen_ai.conversation.id = […]
          - gen_ai.operation.name = invoke_agent
          - gen_ai.provider.name = scripted
          - gen_ai.usage.cache_creation.input_tokens = 0
          - gen_ai.usage.cache_read.input_tokens = 0
          - gen_ai.usage.input_tokens = [N]
          - gen_ai.usage.output_tokens = [N]
          - rind.decision = delegate
          - rind.hooks.calls = 10
          - rind.hooks.micros = […]
          - rind.step = 1
          - rind.steps = 2
          - rind.stop = done
          - rind.tool_calls = 4
          - rind.turn = 1
          chat scripted CLIENT
            - gen_ai.conversation.id = […]
            - gen_ai.operation.name = chat
            - gen_ai.provider.name = scripted
            - gen_ai.request.model = scripted
            - gen_ai.response.finish_reasons = [tool_calls]
            - gen_ai.usage.cache_creation.input_tokens = 0
            - gen_ai.usage.cache_read.input_tokens = 0
            - gen_ai.usage.input_tokens = [N]
            - gen_ai.usage.output_tokens = [N]
            - rind.step = 1
            - rind.turn = 1
          execute_tool read_file INTERNAL
            - gen_ai.conversation.id = […]
            - gen_ai.operation.name = execute_tool
            - gen_ai.tool.call.id = call_1
            - gen_ai.tool.name = read_file
            - gen_ai.tool.type = function
            - rind.step = 1
            - rind.tool.effect_class = read
            - rind.turn = 1
            * rind.hook failed hostile pre-tool
            * rind.tool.start
            * rind.hook failed hostile post-tool
          execute_tool read_file INTERNAL ERROR
            - error.type = tool_error
            - gen_ai.conversation.id = […]
            - gen_ai.operation.name = execute_tool
            - gen_ai.tool.call.id = call_2
            - gen_ai.tool.name = read_file
            - gen_ai.tool.type = function
            - rind.step = 1
            - rind.tool.effect_class = read
            - rind.turn = 1
            * rind.hook failed hostile pre-tool
            * rind.tool.start
            * rind.hook failed hostile post-tool
          execute_tool bash INTERNAL ERROR
            - error.type = denied
            - gen_ai.conversation.id = […]
            - gen_ai.operation.name = execute_tool
            - gen_ai.tool.call.id = call_3
            - gen_ai.tool.name = bash
            - gen_ai.tool.type = function
            - rind.step = 1
            - rind.tool.refused_by = policy
            - rind.turn = 1
            * rind.hook failed hostile pre-tool
            * rind.hook failed hostile post-tool
          execute_tool _OTHER INTERNAL ERROR
            - error.type = denied
            - gen_ai.conversation.id = […]
            - gen_ai.operation.name = execute_tool
            - gen_ai.tool.call.id = call_4
            - gen_ai.tool.name = _OTHER
            - gen_ai.tool.type = function
            - rind.step = 1
            - rind.tool.refused_by = host
            - rind.turn = 1
            * rind.hook failed hostile post-tool
          chat scripted CLIENT
            - gen_ai.conversation.id = […]
            - gen_ai.operation.name = chat
            - gen_ai.provider.name = scripted
            - gen_ai.request.model = scripted
            - gen_ai.response.finish_reasons = [stop]
            - gen_ai.usage.cache_creation.input_tokens = 0
            - gen_ai.usage.cache_read.input_tokens = 0
            - gen_ai.usage.input_tokens = [N]
            - gen_ai.usage.output_tokens = [N]
            - rind.step = 2
            - rind.turn = 1
      chat scripted CLIENT
        - gen_ai.conversation.id = […]
        - gen_ai.operation.name = chat
        - gen_ai.provider.name = scripted
        - gen_ai.request.model = scripted
        - gen_ai.response.finish_reasons = [stop]
        - gen_ai.usage.cache_creation.input_tokens = 100
        - gen_ai.usage.cache_read.input_tokens = 600
        - gen_ai.usage.input_tokens = 1000
        - gen_ai.usage.output_tokens = 777
        - rind.step = 2
        - rind.turn = 1
    ");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_is_archived_is_in_the_trace_of_the_next_one() {
    let (server, endpoint) = collector().await;
    let rind = Rind::with_script(
        r#"
        [[reply]]
        tool_calls = [{ name = "read_file", arguments = { path = "a.txt" } }]
        [[reply]]
        text = "Done."
        times = 0
        "#,
    );
    rind.file("a.txt", "alpha\n").config(
        "[subagents]\nenabled = true\n[archival]\nenabled = true\n\
         [archival.trigger]\ntool_call_threshold = 1\n",
    );
    rind.run(&["run", "Read it"]).exits(0);
    rind.script("[[reply]]\ntext = \"Done.\"\ntimes = 0\n");
    let mut next = rind.command(&["run", "--resume", "last", "Read on"]);
    next.env("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint);
    tokio::task::block_in_place(|| rind.finish(&mut next)).exits(0);
    let (_, spans) = arrived(&server);
    let above = |span: &Span| {
        let above = spans
            .iter()
            .find(|other| other.span_id == span.parent_span_id);
        above.map_or("-", |above| &above.name).to_owned()
    };
    let mut drawn: Vec<String> = spans
        .iter()
        .map(|span| format!("{} < {}", span.name, above(span)))
        .collect();
    drawn.sort();
    assert_eq!(
        drawn,
        [
            "archive < invoke_agent main",
            "chat scripted < invoke_agent main",
            "chat scripted < invoke_agent main",
            "invoke_agent main < -",
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_without_an_answer_fails_with_its_turn() {
    let (server, endpoint) = collector().await;
    let rind = Rind::with_script(
        "[[reply]]\nerror = { status = 401, message = \"who are you, urchin?\" }\n",
    );
    run(&rind, &[("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint)]).exits(1);
    let (resource, spans) = arrived(&server);
    assert_eq!(resource["service.name"], "rind");
    let errors: Vec<String> = spans
        .iter()
        .map(|span| {
            let all = attributes(&span.attributes);
            format!("{}: {}", span.name, all["error.type"])
        })
        .collect();
    assert_eq!(
        errors,
        ["invoke_agent main: provider", "chat scripted: no_answer"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_is_dead_or_silent_costs_two_seconds_and_one_line() {
    let silent = Server::start(|_: &Received| Reply::Held).await;
    for (port, why) in [
        (closed_port().await, "network error"),
        (silent.port, "did not answer within 2 s"),
    ] {
        let endpoint = format!("http://me:sesame@127.0.0.1:{port}");
        let started = Instant::now();
        let ran = run(
            &busy(),
            &[
                ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", &endpoint),
                (
                    "OTEL_EXPORTER_OTLP_HEADERS",
                    "authorization=Bearer%20abracadabra",
                ),
            ],
        )
        .exits(0);
        let took = started.elapsed();
        assert_eq!(ran.stdout, "Done, urchin.\n");
        let told: Vec<&str> = ran
            .stderr
            .lines()
            .filter(|line| line.contains("OpenTelemetry"))
            .collect();
        assert_eq!(told.len(), 1, "{}", ran.stderr);
        assert!(told[0].contains(why), "{}", told[0]);
        assert!(
            told[0].contains("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"),
            "{}",
            told[0]
        );
        for secret in ["sesame", "abracadabra"] {
            assert!(!ran.stderr.contains(secret), "{}", ran.stderr);
        }
        // Two seconds for an unreachable collector, and a margin for a busy machine.
        assert!(took < Duration::from_secs(12), "{took:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_is_silent_does_not_hold_the_answer_back() {
    let silent = Server::start(|_: &Received| Reply::Held).await;
    let endpoint = silent.at("127.0.0.1", "");
    let rind = busy();
    let mut command = rind.command(&["run", "go on", "--yes", "--json"]);
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint);
    let ran = tokio::task::block_in_place(|| rind.finish(&mut command)).exits(0);
    let events = ran.json_lines();
    let last = events.last().unwrap();
    assert_eq!(last["type"], "turn-end");
    assert_eq!(last["output"], "Done, urchin.");
    assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_sent_unless_it_is_asked_for() {
    let (server, endpoint) = collector().await;
    let asked = ("OTEL_EXPORTER_OTLP_ENDPOINT", &*endpoint);
    for off in [
        ("OTEL_SDK_DISABLED", "true"),
        ("OTEL_TRACES_EXPORTER", "none"),
    ] {
        run(&busy(), &[asked, off]).exits(0);
        assert!(server.received().is_empty());
    }
    let ran = run(
        &busy(),
        &[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a b:sesame@c")],
    )
    .exits(0);
    assert!(ran.stderr.contains("cannot be set up"), "{}", ran.stderr);
    assert!(!ran.stderr.contains("sesame"), "{}", ran.stderr);
    assert_eq!(ran.stdout, "Done, urchin.\n");
}
