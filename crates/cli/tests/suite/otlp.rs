//! Traces of messages at a receiver that speaks OTLP: one from the canvas, one of another agent, one over two daemons, and
//! those that a crash or a dead receiver would lose.

use crate::a2a_agent::{Agent, said};
use crate::chat::Chat;
use crate::notifications::called;
use crate::world::{World, within};
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use tokio::net::TcpListener;
use tokio::sync::watch;

/// Names a directory where the traces of these tests are kept, for `examples/telemetry/draw.py`.
const KEEP: &str = "CODEX_BRIDGE_KEEP_TRACES";
/// The caller's span.
const CALLER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const CALLERS_TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

/// Takes spans as a collector does.
struct Receiver {
    address: String,
    spans: watch::Receiver<Vec<Value>>,
}

impl Receiver {
    async fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let (taken, spans) = watch::channel(Vec::new());
        tokio::spawn(async move {
            loop {
                let call = called(&listener).await;
                assert!(call.head.starts_with("POST /v1/traces "), "{}", call.head);
                let request: Value = serde_json::from_str(&call.body).unwrap();
                keep(&format!("request-{}.json", call.body.len()), &request);
                taken.send_modify(|known| known.extend(spans_of(&request)));
                call.answer("200 OK").await;
            }
        });
        Self { address, spans }
    }

    fn setting(&self) -> String {
        format!("telemetry.otlp = \"{}\"\n", self.address)
    }

    /// Waits for all spans of the trace whose root says that of its message, the root first.
    async fn trace(&mut self, what: impl Fn(&Value) -> bool) -> Vec<Value> {
        let found = |spans: &Vec<Value>| {
            let mut roots = spans.iter().filter(|span| span["name"] == "message");
            roots.any(&what)
        };
        let spans = within("a trace", self.spans.wait_for(found)).await.unwrap();
        let mut roots = spans.iter().filter(|span| span["name"] == "message");
        let id = roots.find(|root| what(root)).unwrap()["traceId"].clone();
        spans
            .iter()
            .filter(|span| span["traceId"] == id)
            .cloned()
            .collect()
    }
}

/// The spans of a request, each with the service that sent it.
fn spans_of(request: &Value) -> Vec<Value> {
    let resources = request["resourceSpans"].as_array().unwrap().iter();
    let spans = resources.flat_map(|resource| {
        let service = attribute(&resource["resource"], "service.name").clone();
        let scopes = resource["scopeSpans"].as_array().unwrap().iter();
        let spans = scopes.flat_map(|scope| scope["spans"].as_array().unwrap().clone());
        spans.map(move |mut span| {
            span["service"] = service.clone();
            span
        })
    });
    spans.collect()
}

/// The value of an attribute, whatever its type; null where there is none.
fn attribute<'a>(of: &'a Value, name: &str) -> &'a Value {
    let attributes = of["attributes"].as_array();
    let found = attributes.and_then(|known| known.iter().find(|known| known["key"] == name));
    found
        .and_then(|found| found["value"].as_object()?.values().next())
        .unwrap_or(&Value::Null)
}

fn named<'a>(spans: &'a [Value], name: &str) -> Vec<&'a Value> {
    let named = spans.iter().filter(|span| span["name"] == name);
    named.collect()
}

fn one<'a>(spans: &'a [Value], name: &str) -> &'a Value {
    let found = named(spans, name);
    assert_eq!(found.len(), 1, "{name} in {spans:#?}");
    found[0]
}

/// Every span hangs under another one of its trace, ids are hexadecimal, and nothing ends before it begins.
fn check(spans: &[Value], outer: Option<&str>) {
    let ids: BTreeSet<&str> = spans
        .iter()
        .filter_map(|span| span["spanId"].as_str())
        .collect();
    assert_eq!(ids.len(), spans.len(), "{spans:#?}");
    for span in spans {
        let parent = span["parentSpanId"].as_str();
        let is_root = span["name"] == "message" && parent == outer;
        assert!(is_root || ids.contains(parent.unwrap()), "{span:#}");
        let number = |name: &str| span[name].as_str().unwrap().parse::<u64>().unwrap();
        assert!(
            number("startTimeUnixNano") <= number("endTimeUnixNano"),
            "{span:#}"
        );
        assert_eq!(span["traceId"].as_str().unwrap().len(), 32);
        assert_eq!(span["spanId"].as_str().unwrap().len(), 16);
    }
}

/// Keeps a trace for the pictures in the guide, where somebody wants it.
fn keep(name: &str, told: &impl serde::Serialize) {
    if let Some(place) = std::env::var_os(KEEP) {
        let text = serde_json::to_string_pretty(told).unwrap();
        std::fs::write(std::path::Path::new(&place).join(name), text).unwrap();
    }
}

#[tokio::test]
async fn canvas_message_is_one_trace_without_texts() {
    let mut receiver = Receiver::open().await;
    let chat = Chat::with_settings(&receiver.setting()).await;
    let daemon = chat.daemon().await;
    let made = chat.world.path().join("marmalade");
    chat.says(&format!(
        "shell:echo marmalade ;; escal:touch {} ;; echo:marmalade",
        made.display()
    ));
    let code = chat.question().await;
    chat.says(&format!("approve {code}"));
    chat.until("the answer", |chat| {
        chat.texts().iter().any(|text| text == "marmalade")
    })
    .await;
    let asked = |root: &Value| attribute(root, "codex_bridge.attempt") == "1";
    let spans = receiver.trace(asked).await;
    keep("canvas.json", &spans);
    check(&spans, None);
    let root = one(&spans, "message");
    let id = attribute(root, "codex_bridge.message.id").as_str().unwrap();
    assert_eq!(root["traceId"], id.replace('-', ""));
    assert_eq!(attribute(root, "codex_bridge.message.state"), "done");
    let turn = one(&spans, "invoke_agent codex");
    assert_eq!(turn["parentSpanId"], root["spanId"]);
    assert_eq!(attribute(turn, "gen_ai.operation.name"), "invoke_agent");
    assert!(attribute(turn, "gen_ai.conversation.id").is_string());
    assert!(attribute(turn, "gen_ai.usage.output_tokens").is_string());
    let tools = named(&spans, "execute_tool commandExecution");
    assert_eq!(tools.len(), 2, "{spans:#?}");
    let approval = one(&spans, "approval command");
    assert_eq!(
        attribute(approval, "codex_bridge.approval.decision"),
        "accept"
    );
    for under in tools.into_iter().chain([approval]) {
        assert_eq!(under["parentSpanId"], turn["spanId"], "{under:#}");
    }
    for transition in [
        "receive_page",
        "claim",
        "begin",
        "attach",
        "answer",
        "send",
        "confirm",
    ] {
        let commits = named(&spans, &format!("commit {transition}"));
        assert!(!commits.is_empty(), "{transition}: {spans:#?}");
    }
    // The question is a reply as well.
    assert_eq!(named(&spans, "send reply").len(), 2);
    let told = serde_json::to_string(&spans).unwrap();
    assert!(
        !told.contains("marmalade"),
        "nothing of anybody's words: {told}"
    );
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn a2a_message_continues_callers_trace() {
    let mut receiver = Receiver::open().await;
    let settings = format!("{}http.listen = \"127.0.0.1:0\"\n", receiver.setting());
    let world = World::with_settings(&settings).await;
    let daemon = world.daemon().await;
    let agent = Agent::new(&world, "planner").await;
    let body = serde_json::json!({"jsonrpc": "2.0", "id": 1, "method": "SendMessage",
        "params": {"message": said("m1", "shell:echo quince ;; echo:quince", &Value::Null)}});
    let call = agent
        .call("POST", "/a2a")
        .header("traceparent", CALLER)
        .json(&body);
    let (status, answer) = agent.answer(call).await;
    assert!(status.is_success() && answer.contains("quince"), "{answer}");
    let spans = receiver
        .trace(|root| root["traceId"] == CALLERS_TRACE)
        .await;
    keep("a2a.json", &spans);
    check(&spans, Some("00f067aa0ba902b7"));
    assert_eq!(
        attribute(one(&spans, "message"), "codex_bridge.channel"),
        "a2a"
    );
    one(&spans, "invoke_agent codex");
    assert!(!serde_json::to_string(&spans).unwrap().contains("quince"));
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn trace_goes_on_at_asked_agent() {
    let mut receiver = Receiver::open().await;
    let there = format!("{}http.listen = \"127.0.0.1:0\"\n", receiver.setting());
    let there = World::with_settings(&there).await;
    let asked = there.daemon().await;
    let made = there.run(&["peers", "add", "asker"]).await;
    let here = World::with_settings("").await;
    let token = here.path().join("token");
    let mut options = std::fs::OpenOptions::new();
    let mut file = options
        .create_new(true)
        .write(true)
        .mode(0o600)
        .open(&token)
        .unwrap();
    file.write_all(made.stdout.as_bytes()).unwrap();
    let listen = std::fs::read_to_string(there.state_dir().join("listen")).unwrap();
    let settings = format!(
        "{}[[a2a.agents]]\nname = \"other\"\nurl = \"http://{}\"\ntoken_file = \"{}\"\n",
        receiver.setting(),
        listen.trim(),
        token.display()
    );
    std::fs::write(here.config_file(), settings).unwrap();
    let daemon = here.daemon().await;
    let asks = serde_json::json!({"agent": "other", "text": "echo:quince"});
    let answer = here.ask("c", &format!("tool:ask_agent:{asks}")).await;
    assert!(answer.contains("quince"), "{answer}");
    let is_asker = |root: &Value| attribute(root, "codex_bridge.channel") == "local";
    let spans = receiver.trace(is_asker).await;
    keep("two-daemons.json", &spans);
    check(&spans, None);
    let roots = named(&spans, "message");
    assert_eq!(roots.len(), 2, "{spans:#?}");
    let answered = roots
        .iter()
        .find(|root| attribute(root, "codex_bridge.channel") == "a2a");
    let tool = one(&spans, "execute_tool dynamicToolCall");
    assert_eq!(answered.unwrap()["parentSpanId"], tool["spanId"]);
    assert_eq!(daemon.stop().await, Some(0));
    assert_eq!(asked.stop().await, Some(0));
}

/// Codex 0.166 takes the span that `turn/start` is given for the parent of what it does, and exports by itself.
#[tokio::test]
async fn codex_spans_hang_under_our_turn() {
    let mut receiver = Receiver::open().await;
    let world = World::with_settings(&receiver.setting()).await;
    let exporter = format!(
        "\n[otel.trace_exporter.\"otlp-http\"]\nendpoint = \"{}/v1/traces\"\nprotocol = \"json\"\n",
        receiver.address
    );
    world.configure_codex(&(world.model.codex_config() + &exporter));
    let daemon = world.daemon().await;
    assert_eq!(world.ask("c", "echo:one").await, "one");
    let ours = receiver.trace(|_| true).await;
    let turn = one(&ours, "invoke_agent codex");
    let is_theirs = |span: &Value| {
        span["service"] == "codex-app-server"
            && span["traceId"] == turn["traceId"]
            && span["parentSpanId"] == turn["spanId"]
    };
    let told = receiver.spans.wait_for(|spans| spans.iter().any(is_theirs));
    within("a span of Codex", told).await.unwrap();
    assert_eq!(daemon.stop().await, Some(0));
}

/// The receiver is away while a message is answered and while its daemon is killed: the next daemon exports the same
/// trace.
#[tokio::test]
async fn k18_trace_survives_daemon_and_receiver() {
    let place = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = place.local_addr().unwrap();
    drop(place);
    let world = World::with_settings(&format!("telemetry.otlp = \"http://{address}\"\n")).await;
    let mut daemon = world.daemon().await;
    assert_eq!(world.ask("c", "echo:one").await, "one");
    daemon.log.wait_for("traces are not exported").await;
    daemon.kill_9().await;
    let mut receiver = Receiver::open().await;
    std::fs::write(world.config_file(), receiver.setting()).unwrap();
    let daemon = world.daemon().await;
    let spans = receiver.trace(|_| true).await;
    check(&spans, None);
    for name in ["message", "queue", "invoke_agent codex", "send reply"] {
        one(&spans, name);
    }
    let again = receiver.spans.borrow().len();
    assert_eq!(world.ask("c", "echo:two").await, "two");
    let fresh = |root: &Value| root["traceId"] != spans[0]["traceId"];
    receiver.trace(fresh).await;
    assert!(receiver.spans.borrow().len() > again);
    assert_eq!(daemon.stop().await, Some(0));
}
