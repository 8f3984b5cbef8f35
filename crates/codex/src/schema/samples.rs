//! What we write, with every field set and with none that can be left out.
//!
//! The full samples are struct literals without `..`: a new field does not compile until it is
//! here, and so is checked.

use crate::wire::account::{AccountReadParams, ApiKey, LoginStartParams};
use crate::wire::config::ConfigReadParams;
use crate::wire::config::SandboxPolicy;
use crate::wire::method::{
    AccountLoginStart, AccountRead, BackgroundTerminalsClean, BackgroundTerminalsList,
    Capabilities, ClientInfo, ConfigRead, Initialize, InitializeParams, Method, ThreadArchive,
    ThreadDelete, ThreadLoadedList, ThreadRead, ThreadResume, ThreadSettingsUpdate, ThreadStart,
    ThreadTurnsList, ThreadUnarchive, ThreadUnsubscribe, TurnInterrupt, TurnInterruptParams,
    TurnStart, TurnStartParams, TurnSteer, TurnSteerParams,
};
use crate::wire::thread::{
    DynamicTool, ThreadIdParams, ThreadLoadedListParams, ThreadReadParams, ThreadResumeParams,
    ThreadSettings, ThreadSettingsUpdateParams, ThreadStartParams, ThreadTurnsListParams,
    TurnsPageParams,
};
use crate::wire::turn::UserInput;
use crate::wire::values::{
    ApprovalPolicy, ApprovalsReviewer, HistoryMode, ItemsView, SandboxMode, SortDirection,
};
use bridge_core::value::{ClientId, ThreadId, TurnId};
use serde_json::{Map, Value, json};

/// A method and what we may write for it.
pub(super) struct Sample {
    pub(super) method: &'static str,
    pub(super) params: Value,
}

fn sample<M: Method>(params: M::Params) -> Sample {
    Sample {
        method: M::NAME,
        // What does not serialize shows as params of another type.
        params: serde_json::to_value(params).unwrap_or_default(),
    }
}

fn thread_id() -> ThreadId {
    ThreadId::new("t")
}

fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

fn full_settings() -> ThreadSettings {
    ThreadSettings {
        cwd: text("/w"),
        sandbox: Some(SandboxMode::ReadOnly),
        permissions: text("peer"),
        approval_policy: Some(ApprovalPolicy::OnRequest),
        approvals_reviewer: Some(ApprovalsReviewer::User),
        model: text("m"),
        model_provider: text("p"),
        developer_instructions: text("d"),
        config: Map::from_iter([("model".to_owned(), json!("m"))]),
    }
}

fn full_page() -> TurnsPageParams {
    TurnsPageParams {
        items_view: ItemsView::Full,
        limit: 5,
        sort_direction: SortDirection::Descending,
    }
}

fn every_input() -> Vec<UserInput> {
    vec![
        UserInput::Text {
            text: "x".to_owned(),
        },
        UserInput::LocalImage {
            path: "/x.png".to_owned(),
        },
    ]
}

fn settings_update(sandbox_policy: SandboxPolicy) -> Sample {
    sample::<ThreadSettingsUpdate>(ThreadSettingsUpdateParams {
        thread_id: thread_id(),
        sandbox_policy: Some(sandbox_policy),
        approval_policy: Some(ApprovalPolicy::Never),
        approvals_reviewer: Some(ApprovalsReviewer::User),
    })
}

fn threads() -> Vec<Sample> {
    let by_id = || ThreadIdParams {
        thread_id: thread_id(),
    };
    vec![
        sample::<ThreadStart>(ThreadStartParams {
            settings: full_settings(),
            history_mode: Some(HistoryMode::Legacy),
            dynamic_tools: vec![DynamicTool {
                name: "ask".to_owned(),
                description: "asks".to_owned(),
                input_schema: json!({"type": "object"}),
            }],
        }),
        sample::<ThreadStart>(ThreadStartParams::default()),
        sample::<ThreadResume>(ThreadResumeParams {
            thread_id: thread_id(),
            settings: full_settings(),
            exclude_turns: true,
            initial_turns_page: Some(full_page()),
        }),
        sample::<ThreadResume>(ThreadResumeParams {
            thread_id: thread_id(),
            settings: ThreadSettings::default(),
            exclude_turns: false,
            initial_turns_page: None,
        }),
        sample::<ThreadRead>(ThreadReadParams {
            thread_id: thread_id(),
            include_turns: true,
        }),
        sample::<ThreadTurnsList>(ThreadTurnsListParams {
            thread_id: thread_id(),
            cursor: text("c"),
            page: full_page(),
        }),
        sample::<ThreadArchive>(by_id()),
        sample::<ThreadDelete>(by_id()),
        sample::<ThreadUnarchive>(by_id()),
        sample::<ThreadUnsubscribe>(by_id()),
        sample::<ThreadLoadedList>(ThreadLoadedListParams { limit: Some(5) }),
        sample::<BackgroundTerminalsClean>(by_id()),
        sample::<BackgroundTerminalsList>(by_id()),
        sample::<ConfigRead>(ConfigReadParams { cwd: text("/w") }),
        sample::<ConfigRead>(ConfigReadParams::default()),
        sample::<ThreadSettingsUpdate>(ThreadSettingsUpdateParams {
            thread_id: thread_id(),
            sandbox_policy: Some(SandboxPolicy::DangerFullAccess),
            approval_policy: Some(ApprovalPolicy::OnRequest),
            approvals_reviewer: Some(ApprovalsReviewer::User),
        }),
    ]
}

fn turns() -> Vec<Sample> {
    vec![
        settings_update(SandboxPolicy::ReadOnly {
            network_access: true,
        }),
        settings_update(SandboxPolicy::DangerFullAccess),
        settings_update(SandboxPolicy::WorkspaceWrite {
            writable_roots: vec!["/w".to_owned()],
            network_access: true,
            exclude_tmpdir_env_var: true,
            exclude_slash_tmp: true,
        }),
        sample::<TurnStart>(TurnStartParams {
            thread_id: thread_id(),
            input: every_input(),
            client_id: ClientId::new("c"),
            trace: None,
        }),
        sample::<TurnSteer>(TurnSteerParams {
            thread_id: thread_id(),
            expected_turn_id: TurnId::new("u"),
            input: every_input(),
            client_id: ClientId::new("c"),
        }),
        sample::<TurnInterrupt>(TurnInterruptParams {
            thread_id: thread_id(),
            turn_id: TurnId::new("u"),
        }),
    ]
}

/// Everything we write as a request.
pub(super) fn all() -> Vec<Sample> {
    let mut samples = vec![
        sample::<Initialize>(InitializeParams {
            client_info: ClientInfo {
                name: "b".to_owned(),
                version: "1".to_owned(),
            },
            capabilities: Capabilities {
                experimental_api: true,
                opt_out_notification_methods: vec!["warning".to_owned()],
            },
        }),
        sample::<Initialize>(InitializeParams::experimental("b", "1")),
        sample::<AccountRead>(AccountReadParams {
            refresh_token: true,
        }),
        sample::<AccountLoginStart>(LoginStartParams::ApiKey {
            api_key: ApiKey::new("k"),
        }),
    ];
    samples.extend(threads());
    samples.extend(turns());
    samples
}
