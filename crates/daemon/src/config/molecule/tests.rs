//! What turns a workspace on, what is refused and with which words, and that no token ever shows.

use super::super::{Environment, Loaded, Workspace, load};
use bridge_channel::Secret;
use bridge_channel::molecule::{Origin, TokenSource};
use bridge_core::port::{OnUnknown, TurnTransport};
use bridge_core::value::Tier;

const A: &str = "3132147e-0000-4000-8000-00000000000a";
const B: &str = "3132147e-0000-4000-8000-00000000000b";
const HTTPS: &str = "https://platform.example.com";
const CANARY: &str = "canary-token-5b1d";

fn load_with(text: &str, vars: &[(&str, &str)]) -> Result<Loaded, String> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("some.toml");
    std::fs::write(&path, text).unwrap();
    load(Some(&path), &Environment::of_slice(vars), None).map_err(|error| error.to_string())
}

fn error(text: &str, vars: &[(&str, &str)]) -> String {
    let error = load_with(text, vars).unwrap_err();
    assert!(!error.contains(CANARY), "{error}");
    error
}

fn three<'a>(id: &'a str, url: &'a str) -> Vec<(&'a str, &'a str)> {
    vec![
        ("WORKSPACE_ID", id),
        ("PLATFORM_URL", url),
        ("MOLECULE_WORKSPACE_TOKEN", CANARY),
    ]
}

#[test]
fn three_variables_turn_a_workspace_on() {
    let loaded = load_with("", &three(A, HTTPS)).unwrap();
    let [workspace] = loaded.molecule.as_slice() else {
        panic!("{:?}", loaded.molecule)
    };
    let settings = &workspace.settings;
    assert_eq!(settings.workspace, A);
    assert_eq!(settings.token, TokenSource::Value(Secret::new(CANARY)));
    assert_eq!(
        settings.origins.tier(Origin::Canvas),
        Tier::Peer,
        "nobody said so"
    );
    assert!(
        loaded.warnings[0].contains("nobody who writes"),
        "{:?}",
        loaded.warnings
    );
    assert_eq!(settings.poll.as_secs(), 5);
    assert_eq!(settings.first_start.minutes, 10);
    assert_eq!(settings.max_reply_chars, 16_000);
    assert_eq!(settings.on_unknown, OnUnknown::Hold);
    assert_eq!(workspace.via, TurnTransport::AppServer);
    let shown = format!("{loaded:?} {}", workspace.in_a_line());
    assert!(!shown.contains(CANARY), "{shown}");
    assert!(load_with("", &[]).unwrap().molecule.is_empty());
}

#[test]
fn missing_or_invalid_variables_are_named() {
    for (vars, says) in [
        (
            vec![("WORKSPACE_ID", A), ("MOLECULE_WORKSPACE_TOKEN", CANARY)],
            "PLATFORM_URL",
        ),
        (
            vec![("WORKSPACE_ID", A), ("PLATFORM_URL", HTTPS)],
            "MOLECULE_WORKSPACE_TOKEN",
        ),
        (three("ws-1", HTTPS), "\"ws-1\" is no UUID"),
        (three(A, "platform.example.com"), "is no URL"),
        (
            three(A, "http://platform.example.com"),
            "start with --allow-http or CODEX_BRIDGE_ALLOW_HTTP=1",
        ),
    ] {
        let error = error("", &vars);
        assert!(error.contains(says), "{says}: {error}");
        assert!(error.contains("\n  WORKSPACE_ID: "), "{error}");
    }
    let token_alone = load_with("", &[("MOLECULE_WORKSPACE_TOKEN", CANARY)]).unwrap();
    assert!(
        token_alone.warnings[0].contains("WORKSPACE_ID"),
        "{:?}",
        token_alone.warnings
    );
}

#[test]
fn token_lookup_follows_runtime_order() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).display().to_string();
    std::fs::write(at("named"), format!("{CANARY}\n")).unwrap();
    std::fs::write(at(".auth_token"), CANARY).unwrap();
    std::fs::write(at("empty"), "\n").unwrap();
    let (named, configs) = (at("named"), directory.path().display().to_string());
    let token = |vars: &[(&str, &str)]| {
        let mut all = vec![("WORKSPACE_ID", A), ("PLATFORM_URL", HTTPS)];
        all.extend(vars);
        load_with("", &all).map(|mut loaded| loaded.molecule.remove(0).settings.token)
    };
    let value = ("MOLECULE_WORKSPACE_TOKEN", "value");
    let file = ("MOLECULE_WORKSPACE_TOKEN_FILE", named.as_str());
    let runtime = ("CONFIGS_DIR", configs.as_str());
    assert_eq!(
        token(&[value, file, runtime]),
        Ok(TokenSource::Value(Secret::new("value")))
    );
    assert_eq!(
        token(&[file, runtime]),
        Ok(TokenSource::File(named.clone().into()))
    );
    assert_eq!(
        token(&[runtime]),
        Ok(TokenSource::File(at(".auth_token").into()))
    );
    let home = tempfile::tempdir().unwrap();
    let below = home.path().join(".molecule-workspace");
    std::fs::create_dir(&below).unwrap();
    std::fs::write(below.join(".auth_token"), CANARY).unwrap();
    let home = home.path().display().to_string();
    let found = token(&[("HOME", home.as_str())]);
    assert_eq!(found, Ok(TokenSource::File(below.join(".auth_token"))));
    for (name, says) in [
        ("empty", "holds no usable token"),
        ("missing", "can't be read"),
    ] {
        let error = token(&[("MOLECULE_WORKSPACE_TOKEN_FILE", &at(name)), runtime]).unwrap_err();
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn a_list_of_workspaces_replaces_the_one() {
    let list = format!(
        r#"[{{"id":"{A}","token":"{CANARY}"}},{{"id":"{B}","token":"{CANARY}","platform_url":"http://127.0.0.1:9","more":1}}]"#
    );
    for name in ["MOLECULE_WORKSPACES", "MOLECULE_WORKSPACES_JSON"] {
        let other = "3132147e-0000-4000-8000-00000000000c";
        let mut vars = three(other, HTTPS);
        vars.push((name, &list));
        let loaded = load_with("", &vars).unwrap();
        let urls: Vec<_> = loaded
            .molecule
            .iter()
            .map(|one| {
                (
                    one.settings.workspace.as_str(),
                    one.settings.platform_url.as_str(),
                )
            })
            .collect();
        assert_eq!(urls, [(A, HTTPS), (B, "http://127.0.0.1:9")]);
    }
    let twice = format!(r#"[{{"id":"{A}","token":"{CANARY}"}},{{"id":"{A}","token":"x"}}]"#);
    for (list, says) in [
        (twice.as_str(), "is named twice"),
        (
            &format!("[{{\"id\":\"{CANARY}"),
            "is no JSON list of workspaces",
        ),
        (
            &format!(r#"[{{"id":"{A}"}}]"#),
            "entry 1: `id` and `token` are needed",
        ),
        ("{}", "is no JSON list of workspaces"),
        ("[]", "is an empty list"),
    ] {
        let vars = [("MOLECULE_WORKSPACES", list), ("PLATFORM_URL", HTTPS)];
        let error = error("", &vars);
        assert!(
            error.contains(says) && error.contains("\n  MOLECULE_WORKSPACES: "),
            "{error}"
        );
    }
}

#[test]
fn file_configures_workspaces_but_rejects_tokens() {
    let directory = tempfile::tempdir().unwrap();
    let token = directory.path().join("token");
    std::fs::write(&token, CANARY).unwrap();
    let token = token.display();
    let text = format!(
        "[molecule]\nplatform_url = '{HTTPS}'\npoll_secs = 9\ntransport = 'exec'\norigins.canvas = 'owner'\n\
         [[molecule.workspace]]\nid = '{A}'\ntoken_file = '{token}'\norigins.canvas = 'peer'\n\
         [[molecule.workspace]]\nid = '{B}'\ntoken_file = '{token}'\ntransport = 'app-server'\n"
    );
    let loaded = load_with(&text, &[]).unwrap();
    let [a, b] = loaded.molecule.as_slice() else {
        panic!("{:?}", loaded.molecule)
    };
    assert_eq!((canvas_tier(a), canvas_tier(b)), (Tier::Peer, Tier::Owner));
    assert_eq!(
        (a.via, b.via),
        (TurnTransport::Exec, TurnTransport::AppServer)
    );
    assert_eq!(a.settings.poll.as_secs(), 9);
    assert!(
        loaded
            .warnings
            .iter()
            .any(|said| said.contains("chmod 600")),
        "{:?}",
        loaded.warnings
    );

    let with_token = text.replace("origins.canvas = 'peer'", &format!("token = '{CANARY}'"));
    let refused = error(&with_token, &[]);
    assert!(
        refused.contains("9:1: `molecule.workspace.0.token`: a token may not be in this file"),
        "{refused}"
    );
    let twice = text.replace(B, A);
    assert!(
        error(&twice, &[]).contains("is named twice (also at 7:"),
        "{}",
        error(&twice, &[])
    );
    let tokenless = format!("[[molecule.workspace]]\nid = '{A}'\nplatform_url = '{HTTPS}'\n");
    assert!(
        error(&tokenless, &[]).contains(":2:1: the workspace"),
        "{}",
        error(&tokenless, &[])
    );
    let misspelt = text.replace("origins.canvas = 'peer'", "origins.canvsa = 'peer'");
    let meant = "did you mean `molecule.workspace.0.origins.canvas`?";
    assert!(error(&misspelt, &[]).contains(meant));
    let old = text.replace("origins.canvas = 'peer'", "canvas_tier = 'owner'");
    let renamed = "`molecule.workspace.0.canvas_tier` is now `molecule.workspace.0.origins.canvas`";
    assert!(error(&old, &[]).contains(renamed));
}

#[test]
fn env_and_table_merge_per_workspace() {
    let text =
        format!("[[molecule.workspace]]\nid = '{A}'\nname = 'Codex'\norigins.canvas = 'peer'\n");
    let loaded = load_with(&text, &three(&A.to_uppercase(), HTTPS)).unwrap();
    let [one] = loaded.molecule.as_slice() else {
        panic!("{:?}", loaded.molecule)
    };
    assert_eq!(one.settings.name.as_deref(), Some("Codex"));
    assert_eq!(canvas_tier(one), Tier::Peer);
    assert_eq!(one.settings.token, TokenSource::Value(Secret::new(CANARY)));
}

/// Threat 30: no token in the clear by accident.
#[test]
fn threat_30_plain_http_needs_a_word() {
    let vars = three(A, "http://platform.example.com");
    let loaded = load_with("molecule.allow_http = true", &vars).unwrap();
    assert_eq!(canvas_tier(&loaded.molecule[0]), Tier::Peer);
    assert!(
        loaded.warnings[0].contains("in the clear"),
        "{:?}",
        loaded.warnings
    );
    let text = "[molecule]\nallow_http = true\norigins.canvas = 'owner'\n";
    let loaded = load_with(text, &vars).unwrap();
    assert!(
        loaded.warnings[0].contains("as the owner of this machine"),
        "{:?}",
        loaded.warnings
    );
}

#[test]
fn threat_30_variable_allows_plain_http() {
    let http = "http://platform.example.com";
    let mut vars = three(A, http);
    vars.push(("CODEX_BRIDGE_ALLOW_HTTP", "1"));
    let loaded = load_with("", &vars).unwrap();
    assert!(loaded.warnings[0].contains("in the clear"));
    assert_eq!(canvas_tier(&loaded.molecule[0]), Tier::Peer);
    let environment = Environment::of_slice(&three(A, http));
    assert!(load(None, &environment, None).is_err());
    assert!(load(None, &environment.allowing_http(), None).is_ok());
    for (value, says) in [("0", "--allow-http"), ("yes", "is neither 1 nor 0")] {
        let mut vars = three(A, http);
        vars.push(("CODEX_BRIDGE_ALLOW_HTTP", value));
        let refused = error("molecule.allow_http = true", &vars);
        assert!(refused.contains(says), "{refused}");
    }
}

#[test]
fn d1_agents_get_tiers_by_workspace() {
    let peer = |keys: &str| format!("[[molecule.peers]]\nid = '{B}'\n{keys}\n");
    let tier = |text: &str| {
        let loaded = load_with(text, &three(A, HTTPS)).unwrap();
        loaded.molecule[0].settings.origins.tier_of_sender(B)
    };
    assert_eq!(tier(""), Tier::Peer);
    assert_eq!(tier(&peer("")), Tier::Peer);
    assert_eq!(tier(&peer("tier = 'tool'")), Tier::Tool);
    assert_eq!(
        tier(&peer(&format!("tier = 'tool'\nworkspace = '{A}'"))),
        Tier::Tool
    );
    assert_eq!(
        tier(&peer(&format!("tier = 'tool'\nworkspace = '{B}'"))),
        Tier::Peer
    );
    let own = peer(&format!("workspace = '{}'", A.to_uppercase()));
    assert_eq!(tier(&format!("{}{own}", peer("tier = 'tool'"))), Tier::Peer);
    for (text, says) in [
        (peer("tier = 'owner'"), "\"peer\""),
        (peer("").replace(B, "boss"), "no UUID"),
        (peer("workspace = 'x'"), "no UUID"),
        (peer("").repeat(2), "name it once"),
    ] {
        let refused = error(&text, &three(A, HTTPS));
        assert!(refused.contains(says), "{refused}");
    }
}

#[test]
fn d1_only_the_operator_names_an_owner() {
    let of = |text: &str| load_with(text, &three(A, HTTPS)).unwrap();
    let silent = of("");
    assert_eq!(canvas_tier(&silent.molecule[0]), Tier::Peer);
    assert!(silent.warnings[0].contains("`canvas = \"owner\"` under [molecule.origins]"));
    let said = of("[molecule.origins]\ncanvas = 'owner'\nowners = ['telegram:777']\n");
    let origins = &said.molecule[0].settings.origins;
    assert_eq!(said.warnings, Vec::<String>::new());
    assert_eq!(origins.tier(Origin::Canvas), Tier::Owner);
    assert_eq!(origins.tier(Origin::Unmarked), Tier::Peer);
    assert_eq!(origins.tier_of_sender("telegram:777@42"), Tier::Owner);
    assert_eq!(origins.tier_of_sender("telegram:778@42"), Tier::Peer);
    assert_eq!(origins.tier_of_sender(B), Tier::Peer);
    for wrong in ["777", "agent:777", "canvas:"] {
        let text = format!("molecule.origins.owners = ['{wrong}']\n");
        let refused = error(&text, &three(A, HTTPS));
        assert!(
            refused.contains("expected an origin and an id"),
            "{refused}"
        );
    }
    let decided = of("molecule.origins.canvas = 'peer'\n");
    assert_eq!(decided.warnings, Vec::<String>::new());
}

fn canvas_tier(workspace: &Workspace) -> Tier {
    workspace.settings.origins.tier(Origin::Canvas)
}

#[test]
fn none_of_our_variables_reaches_codex() {
    let mut vars = three(A, HTTPS);
    vars.extend([
        ("MOLECULE_WORKSPACE_TOKEN_FILE", "/x"),
        ("MOLECULE_WORKSPACES", "[]"),
        ("MOLECULE_WORKSPACES_JSON", "[]"),
        ("MOLECULE_ORG_ID", "org"),
        ("CONFIGS_DIR", "/c"),
        ("CODEX_CHANNEL_MOLECULE_STATE_DIR", "/s"),
        ("NOTIFY_SOCKET", "/n"),
        ("PATH", "/bin"),
    ]);
    let environment = Environment::of_slice(&vars);
    let seen = environment.for_codex(&super::super::Config::default());
    let names: Vec<_> = seen.iter().filter_map(|(name, _)| name.to_str()).collect();
    assert_eq!(names, ["PATH"]);
    for name in [
        "MOLECULE_WORKSPACE_TOKEN",
        "MOLECULE_WORKSPACES",
        "WORKSPACE_ID",
    ] {
        let text = format!("codex.env_pass = ['{name}']");
        assert!(error(&text, &[]).contains("never reaches Codex"));
    }
}
