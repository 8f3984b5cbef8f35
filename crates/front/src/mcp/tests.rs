//! The server as a client of the official SDK sees it, over a control that answers as a script says.

use super::server::{Backend, ControlBackend, McpServer};
use crate::{
    Caller, Control, ControlAction, ControlError, ControlErrorKind, StartArgs, TaskWatch, Via,
};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CancelledNotificationParam,
    ClientConfig, ClientRequest, ErrorCode, ListResourcesResult, ProgressNotificationParam,
    ReadResourceRequestParams, ReadResourceResponse, Request,
};
use rmcp::service::{
    NotificationContext, PeerRequestOptions, RequestContext, RunningService, ServiceError,
};
use rmcp::{ClientHandler, ErrorData, RoleClient, RoleServer, ServiceExt};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

type Answer = Result<Value, ControlError>;

#[derive(Clone, Default)]
struct Scripted {
    acts: Arc<Mutex<Vec<(Caller, ControlAction)>>>,
    answers: Arc<Mutex<VecDeque<Answer>>>,
    performed: Option<mpsc::UnboundedSender<()>>,
    news: ScriptedWatch,
}

/// When the script notifies of changes.
#[derive(Clone, Default)]
enum ScriptedWatch {
    /// There is none.
    #[default]
    Never,
    /// All the time.
    Always,
    /// When the test says so.
    At(Arc<Notify>),
}

impl TaskWatch for ScriptedWatch {
    async fn changed(&mut self) {
        match self {
            Self::Never => std::future::pending().await,
            Self::Always => {}
            Self::At(notify) => notify.notified().await,
        }
    }
}

impl Scripted {
    fn with(answers: impl IntoIterator<Item = Answer>) -> Self {
        let answers = Arc::new(Mutex::new(answers.into_iter().collect()));
        Self {
            answers,
            ..Self::default()
        }
    }

    fn acts(&self) -> Vec<ControlAction> {
        let acts = self.acts.lock().unwrap();
        acts.iter().map(|(_, act)| act.clone()).collect()
    }
}

impl Control for Scripted {
    type TaskWatch = ScriptedWatch;

    fn news(&self, task_id: &str) -> ScriptedWatch {
        assert_eq!(task_id, "codex-1");
        self.news.clone()
    }

    async fn act(&self, caller: &Caller, act: ControlAction) -> Answer {
        self.acts.lock().unwrap().push((caller.clone(), act));
        if let Some(performed) = &self.performed {
            let _closed = performed.send(());
        }
        let mut answers = self.answers.lock().unwrap();
        match answers.len() {
            0 => Ok(json!({"success": true})),
            1 => answers.front().cloned().unwrap(),
            _ => answers.pop_front().unwrap(),
        }
    }
}

/// The local owner's calls, with the HTTP head that the daemon's guard would have put there.
#[derive(Clone)]
struct ByOwner(ControlBackend<Scripted>);

fn owned(mut context: RequestContext<RoleServer>) -> RequestContext<RoleServer> {
    let (mut parts, ()) = axum::http::Request::new(()).into_parts();
    parts.extensions.insert(Caller::local_owner(Via::Mcp));
    context.extensions.insert(parts);
    context
}

impl Backend for ByOwner {
    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.0.call_tool(request, owned(context)).await
    }

    async fn list_resources(
        &self,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        self.0.list_resources(owned(context)).await
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        self.0.read_resource(request, owned(context)).await
    }
}

#[derive(Clone)]
struct Client(mpsc::UnboundedSender<ProgressNotificationParam>);

impl ClientHandler for Client {
    fn get_info(&self) -> ClientConfig {
        ClientConfig::default()
    }

    async fn on_progress(
        &self,
        news: ProgressNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        let _closed = self.0.send(news);
    }
}

type Connected = RunningService<RoleClient, Client>;

async fn connect(
    control: &Scripted,
) -> (
    Connected,
    mpsc::UnboundedReceiver<ProgressNotificationParam>,
) {
    let (ours, theirs) = tokio::io::duplex(1 << 20);
    let server = McpServer(ByOwner(ControlBackend(control.clone())));
    tokio::spawn(async move {
        let running = server.serve(theirs).await.unwrap();
        running.waiting().await.unwrap();
    });
    let (sender, progress) = mpsc::unbounded_channel();
    (Client(sender).serve(ours).await.unwrap(), progress)
}

fn call(name: &'static str, arguments: &Value) -> CallToolRequestParams {
    CallToolRequestParams::new(name).with_arguments(arguments.as_object().unwrap().clone())
}

async fn call_tool(client: &Connected, name: &'static str, arguments: Value) -> CallToolResult {
    client.call_tool(call(name, &arguments)).await.unwrap()
}

/// The text is the structured content, and says whether it is an error.
fn read(result: &CallToolResult) -> Value {
    let text = result.content.first().unwrap().as_text().unwrap();
    let value: Value = serde_json::from_str(&text.text).unwrap();
    assert_eq!(result.structured_content.as_ref(), Some(&value));
    assert_eq!(
        value["success"],
        json!(result.is_error != Some(true)),
        "{value}"
    );
    value
}

fn task(status: &str, progress: &str) -> Answer {
    Ok(json!({"success": true, "task": {
        "task_id": "codex-1", "status": status, "last_progress_summary": progress, "pending_requests": [],
    }}))
}

#[tokio::test]
async fn maps_every_legacy_action() {
    let control = Scripted::default();
    let (client, _) = connect(&control).await;
    let (id, request) = ("codex-1".to_owned(), "r1".to_owned());
    let cases = [
        (
            json!({"action": "start", "prompt": "p", "cwd": "/w", "model": "m", "sandbox": "read-only",
                "approval_policy": "untrusted", "codex_home": "/h", "notify_target": "local"}),
            ControlAction::Start(StartArgs {
                prompt: "p".to_owned(),
                cwd: Some("/w".to_owned()),
                model: Some("m".to_owned()),
                sandbox: Some("read-only".to_owned()),
                approval_policy: Some("untrusted".to_owned()),
                codex_home: Some("/h".to_owned()),
                notify_target: Some("local".to_owned()),
                key: None,
                base: None,
            }),
        ),
        // The ancestor's agents send what they do not use, and its refusals come from control.
        (
            json!({"action": " Start ", "prompt": "  ", "limit": null}),
            ControlAction::Start(StartArgs::default()),
        ),
        (
            json!({"action": "status", "task_id": "codex-1"}),
            ControlAction::Status {
                task_id: id.clone(),
            },
        ),
        (
            json!({"action": "list"}),
            ControlAction::List { limit: None },
        ),
        (
            json!({"action": "list", "limit": 3}),
            ControlAction::List { limit: Some(3) },
        ),
        (
            json!({"action": "notify_completed", "dry_run": true, "limit": 2}),
            ControlAction::NotifyCompleted {
                limit: Some(2),
                dry_run: true,
            },
        ),
        (
            json!({"action": "steer", "task_id": "codex-1", "instruction": "more"}),
            ControlAction::Steer {
                task_id: id.clone(),
                instruction: "more".to_owned(),
            },
        ),
        (
            json!({"action": "interrupt", "task_id": "codex-1"}),
            ControlAction::Interrupt {
                task_id: id.clone(),
            },
        ),
        (
            json!({"action": "cancel", "task_id": "codex-1"}),
            ControlAction::Interrupt {
                task_id: id.clone(),
            },
        ),
        (
            json!({"action": "respond", "task_id": "codex-1", "instruction": "r1"}),
            ControlAction::Respond {
                task_id: id.clone(),
                request_id: request.clone(),
                decision: None,
                answers: None,
            },
        ),
        (
            json!({"action": "respond", "task_id": "codex-1", "instruction": "r1",
                "answers": {"q": {"answers": ["a"]}}}),
            ControlAction::Respond {
                task_id: id,
                request_id: request,
                decision: None,
                answers: Some(json!({"q": {"answers": ["a"]}})),
            },
        ),
    ];
    for (arguments, act) in cases {
        read(&call_tool(&client, "codex_bridge", arguments).await);
        assert_eq!(control.acts().pop(), Some(act));
    }
}

#[tokio::test]
async fn invalid_legacy_actions_keep_original_errors() {
    let control = Scripted::default();
    let (client, _) = connect(&control).await;
    let none =
        "action must be one of start, status, list, notify_completed, steer, interrupt, respond.";
    let respond = "codex_bridge respond requires task_id and instruction=request_id.";
    let steer = "codex_bridge steer requires task_id and instruction.";
    let cases = [
        (json!({}), none),
        (json!({"action": "explode"}), none),
        (
            json!({"action": "status"}),
            "codex_bridge status requires task_id.",
        ),
        (
            json!({"action": "interrupt"}),
            "codex_bridge interrupt requires task_id.",
        ),
        (
            json!({"action": "cancel", "task_id": ""}),
            "codex_bridge interrupt requires task_id.",
        ),
        (json!({"action": "steer", "task_id": "codex-1"}), steer),
        (json!({"action": "steer", "instruction": "more"}), steer),
        (json!({"action": "respond", "task_id": "codex-1"}), respond),
        (
            json!({"action": "list", "limit": "many"}),
            "codex_bridge: limit must be a whole number that is not negative.",
        ),
    ];
    for (arguments, words) in cases {
        let value = read(&call_tool(&client, "codex_bridge", arguments).await);
        assert_eq!(value, json!({"success": false, "error": words}));
    }
    assert_eq!(control.acts(), []);
}

#[tokio::test(start_paused = true)]
async fn wait_reports_progress_until_approval_request() {
    let control = Scripted::with([
        task("queued", ""),
        task("working", "ls"),
        task("working", "ls"),
        Ok(json!({"success": true, "task": {
            "task_id": "codex-1", "status": "waiting_for_approval", "pending_requests": [
                {"request_id": "r1", "method": "item/commandExecution/requestApproval", "kind": "command",
                 "shown": "rm -r x", "deadline": 7.0, "payload": {"long": true}},
            ],
        }})),
    ]);
    let (client, mut progress) = connect(&control).await;
    let value = read(&call_tool(&client, "codex_wait", json!({"task_id": "codex-1"})).await);
    assert_eq!(value["status"], "waiting_for_approval");
    assert_eq!(value["requests"][0]["shown"], "rm -r x");
    assert_eq!(value["requests"][0]["payload"], Value::Null);
    assert!(value["next"].as_str().unwrap().contains("codex_respond"));
    let first = progress.recv().await.unwrap();
    let second = progress.recv().await.unwrap();
    assert_eq!(first.message.as_deref(), Some("queued"));
    assert_eq!(second.message.as_deref(), Some("working: ls"));
    assert!(second.progress > first.progress);
    assert_eq!(control.acts().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn wait_times_out_with_progress_notifications() {
    let control = Scripted::with([task("working", "ls")]);
    let (client, mut progress) = connect(&control).await;
    let arguments = json!({"task_id": "codex-1", "timeout_seconds": 35});
    let value = read(&call_tool(&client, "codex_wait", arguments).await);
    assert_eq!(value["timed_out"], json!(true));
    assert!(value["next"].as_str().unwrap().contains("codex_wait"));
    for _ in 0..3 {
        assert_eq!(
            progress.recv().await.unwrap().message.as_deref(),
            Some("working: ls")
        );
    }
}

#[tokio::test(start_paused = true)]
async fn wait_returns_immediately_on_task_end() {
    let (looks, mut looked) = mpsc::unbounded_channel();
    let news = Arc::new(Notify::new());
    let control = Scripted {
        performed: Some(looks),
        news: ScriptedWatch::At(Arc::clone(&news)),
        ..Scripted::with([task("working", "ls"), task("completed", "ls")])
    };
    let (client, _) = connect(&control).await;
    let began = Instant::now();
    let ended = async {
        looked.recv().await.unwrap();
        news.notify_one();
    };
    let waited = call_tool(&client, "codex_wait", json!({"task_id": "codex-1"}));
    let (result, ()) = tokio::join!(waited, ended);
    assert_eq!(read(&result)["status"], "completed");
    assert_eq!(began.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn wait_throttles_progress_notifications() {
    let control = Scripted {
        news: ScriptedWatch::Always,
        ..Scripted::with((0..1_000).map(|n| task("working", &n.to_string())))
    };
    let (client, mut progress) = connect(&control).await;
    let arguments = json!({"task_id": "codex-1", "timeout_seconds": 10});
    read(&call_tool(&client, "codex_wait", arguments).await);
    let looks = control.acts().len();
    assert!((200..=212).contains(&looks), "{looks}");
    let mut lines = 0;
    while progress.try_recv().is_ok() {
        lines += 1;
    }
    assert!((30..=41).contains(&lines), "{lines}");
}

#[tokio::test(start_paused = true)]
async fn suppressed_progress_is_sent_later() {
    let news = Arc::new(Notify::new());
    let control = Scripted {
        news: ScriptedWatch::At(Arc::clone(&news)),
        ..Scripted::with([task("queued", ""), task("working", "ls")])
    };
    let (client, mut progress) = connect(&control).await;
    let lines = async {
        let began = progress.recv().await.unwrap();
        assert_eq!(began.message.as_deref(), Some("queued"));
        news.notify_one();
        progress.recv().await.unwrap()
    };
    let arguments = json!({"task_id": "codex-1", "timeout_seconds": 5});
    let (_, second) = tokio::join!(call_tool(&client, "codex_wait", arguments), lines);
    assert_eq!(second.message.as_deref(), Some("working: ls"));
    assert!(second.progress < 0.5, "{}", second.progress);
}

#[tokio::test(start_paused = true)]
async fn cancelling_wait_leaves_task_running() {
    let (looks, mut looked) = mpsc::unbounded_channel();
    let control = Scripted {
        performed: Some(looks),
        ..Scripted::with([task("working", "ls")])
    };
    let (client, _) = connect(&control).await;
    let request = ClientRequest::CallToolRequest(Request::new(call(
        "codex_wait",
        &json!({"task_id": "codex-1"}),
    )));
    let waiting = client
        .send_cancellable_request(request, PeerRequestOptions::no_options())
        .await
        .unwrap();
    looked.recv().await.unwrap();
    let cancelled = CancelledNotificationParam::new(Some(waiting.id.clone()), None);
    client.notify_cancelled(cancelled).await.unwrap();
    // The server still answers, and the wait no longer looks.
    read(&call_tool(&client, "codex_bridge", json!({"action": "list"})).await);
    let acts = control.acts();
    let is_a_look = |act: &ControlAction| {
        matches!(
            act,
            ControlAction::Status { .. } | ControlAction::List { .. }
        )
    };
    assert!(acts.iter().all(is_a_look), "{acts:?}");
}

#[tokio::test]
async fn tools_report_unavailable_daemon() {
    let gone = ControlError::new(
        ControlErrorKind::Unavailable,
        "the daemon went away: start it again",
    );
    let control = Scripted::with([Err(gone)]);
    let (client, _) = connect(&control).await;
    for (tool, arguments) in [
        ("codex_bridge", json!({"action": "list"})),
        ("codex_wait", json!({"task_id": "codex-1"})),
        ("codex_requests", json!({})),
    ] {
        let value = read(&call_tool(&client, tool, arguments).await);
        assert_eq!(value["error"], "the daemon went away: start it again");
    }
}

#[tokio::test]
async fn tools_reject_missing_and_unknown_parameters() {
    let control = Scripted::default();
    let (client, _) = connect(&control).await;
    let cases = [
        ("codex_start", json!({}), "codex_start requires prompt."),
        (
            "codex_respond",
            json!({"task_id": "codex-1", "request_id": "r1"}),
            "codex_respond requires decision.",
        ),
        (
            "codex_steer",
            json!({"task_id": "codex-1", "text": "more"}),
            "codex_steer has no parameter \"text\"; it has: instruction, task_id.",
        ),
    ];
    for (tool, arguments, words) in cases {
        let value = read(&call_tool(&client, tool, arguments).await);
        assert_eq!(value["error"], words);
    }
    assert_eq!(control.acts(), []);
    let unknown = client.call_tool(call("codex_explode", &json!({}))).await;
    assert!(
        matches!(unknown, Err(ServiceError::McpError(error)) if error.code == ErrorCode::INVALID_PARAMS)
    );
}

#[tokio::test]
async fn lists_open_requests_across_tasks() {
    let listed = json!({"success": true, "requests": [
        {"request_id": "r2", "message_id": "m2", "task_id": "codex-2"},
        {"request_id": "r3", "message_id": "m3", "task_id": null},
        {"request_id": "r4", "message_id": "m4", "task_id": "codex-2"},
    ]});
    let asked = json!({"success": true, "task": {"task_id": "codex-2", "pending_requests": [
        {"request_id": "r2", "kind": "user_input", "method": "item/tool/requestUserInput", "payload": {"questions": [{"id": "q1"}]}},
    ]}});
    let chat = json!({"success": true, "task": {"task_id": null, "pending_requests": [
        {"request_id": "r3", "headline": "run make"},
    ]}});
    let control = Scripted::with([Ok(listed), Ok(asked), Ok(chat)]);
    let (client, _) = connect(&control).await;
    let value = read(&call_tool(&client, "codex_requests", json!({})).await);
    let expected = json!([
        {"task_id": "codex-2", "request_id": "r2", "kind": "user_input", "method": "item/tool/requestUserInput",
            "payload": {"questions": [{"id": "q1"}]}},
        {"task_id": "m3", "request_id": "r3", "headline": "run make"},
    ]);
    assert_eq!(value["requests"], expected);
    let looks = ["codex-2", "m3"].map(|task_id| ControlAction::Status {
        task_id: task_id.to_owned(),
    });
    assert_eq!(
        control.acts(),
        [vec![ControlAction::Requests], looks.to_vec()].concat()
    );
}

#[tokio::test]
async fn finished_task_does_not_suggest_steering() {
    let control = Scripted::with([task("completed", "ls")]);
    let (client, _) = connect(&control).await;
    let value = read(&call_tool(&client, "codex_status", json!({"task_id": "codex-1"})).await);
    let next = value["next"].as_str().unwrap();
    assert!(
        next.contains("codex_start") && !next.contains("codex_steer"),
        "{next}"
    );
}

#[tokio::test]
async fn tasks_are_resources() {
    let listed =
        json!({"success": true, "tasks": [{"task_id": "codex-1", "prompt_summary": "tidy up"}]});
    let unknown = ControlError::new(
        ControlErrorKind::Unknown,
        "Unknown Codex bridge task: codex-9",
    );
    let control = Scripted::with([Ok(listed), task("working", "ls"), Err(unknown)]);
    let (client, _) = connect(&control).await;
    let resources = client.list_all_resources().await.unwrap();
    let uris: Vec<&str> = resources
        .iter()
        .map(|resource| resource.uri.as_str())
        .collect();
    assert_eq!(
        uris,
        ["codex-bridge://tasks", "codex-bridge://tasks/codex-1"]
    );
    let templates = client.list_all_resource_templates().await.unwrap();
    assert_eq!(templates[0].uri_template, "codex-bridge://tasks/{task_id}");

    let read = |uri: &str| client.read_resource(ReadResourceRequestParams::new(uri));
    let contents = read("codex-bridge://tasks/codex-1").await.unwrap().contents;
    let text = serde_json::to_value(&contents[0]).unwrap();
    assert!(text["text"].as_str().unwrap().contains("working"), "{text}");
    for (uri, words) in [
        (
            "codex-bridge://tasks/codex-9",
            "Unknown Codex bridge task: codex-9",
        ),
        ("codex-bridge://elsewhere", "there is no such resource"),
    ] {
        match read(uri).await {
            Err(ServiceError::McpError(error)) => assert_eq!(error.message, words),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn what_is_not_declared_is_not_answered() {
    let (client, _) = connect(&Scripted::default()).await;
    let capabilities = &client.peer_info().unwrap().capabilities;
    assert!(capabilities.prompts.is_none() && capabilities.completions.is_none());
    let prompts = client.list_prompts(None).await;
    assert!(
        matches!(prompts, Err(ServiceError::McpError(error)) if error.code == ErrorCode::METHOD_NOT_FOUND)
    );
}

#[tokio::test]
async fn refusal_with_task_is_an_error() {
    let refused = json!({"success": false, "error": "the turn is over", "steer": "refused", "why": "the turn is over",
        "task": {"task_id": "codex-1", "status": "completed", "answer": "whole", "final_summary": "who…"}});
    let control = Scripted::with([Ok(refused.clone())]);
    let (client, _) = connect(&control).await;
    let arguments = json!({"action": "steer", "task_id": "codex-1", "instruction": "more"});
    assert_eq!(
        read(&call_tool(&client, "codex_bridge", arguments).await),
        refused
    );
    let arguments = json!({"task_id": "codex-1", "instruction": "more"});
    let brief = read(&call_tool(&client, "codex_steer", arguments).await);
    assert_eq!(brief["error"], "the turn is over");
    assert_eq!(brief["answer"], "whole");
}
