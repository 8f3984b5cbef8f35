//! Rules as an operator reads them, and the ways around an `allow` that must not exist.

use super::*;

/// The same numbers in every run.
struct Dice(u64);

impl Dice {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % bound
    }
}

fn prefix(text: &str) -> Prefix {
    Prefix::parse(text).unwrap()
}

fn rule(then: RuleDecision) -> Rule {
    Rule {
        name: "r".to_owned(),
        tiers: Vec::new(),
        kinds: Vec::new(),
        commands: Vec::new(),
        places: Vec::new(),
        servers: Vec::new(),
        tools: Vec::new(),
        then,
        who: None,
        even_peers: false,
    }
}

fn commands(then: RuleDecision, prefixes: &[&str]) -> Policy {
    let commands = prefixes.iter().map(|text| prefix(text)).collect();
    Policy {
        rules: vec![Rule {
            commands,
            ..rule(then)
        }],
    }
}

fn places(then: RuleDecision, paths: &[&str]) -> Policy {
    let places = paths
        .iter()
        .map(|path| Place::parse(path).unwrap())
        .collect();
    Policy {
        rules: vec![Rule {
            places,
            ..rule(then)
        }],
    }
}

fn run(line: &str) -> Effect {
    Effect {
        command: Some(line.to_owned()),
        cwd: Some("/work".to_owned()),
        ..Effect::default()
    }
}

fn judge(policy: &Policy, tier: Tier, kind: &RequestKind, effect: &Effect) -> RuleEvaluation {
    policy.judge(RuleQuery { tier, kind, effect })
}

fn ruling(policy: &Policy, line: &str) -> RuleDecision {
    judge(policy, Tier::Owner, &RequestKind::Command, &run(line)).ruling
}

fn change(policy: &Policy, paths: &[&str]) -> RuleDecision {
    let effect = Effect {
        paths: paths.iter().map(|path| (*path).to_owned()).collect(),
        cwd: Some("/work".to_owned()),
        ..Effect::default()
    };
    judge(policy, Tier::Owner, &RequestKind::FileChange, &effect).ruling
}

#[test]
fn tier_picks_decider_without_rules() {
    let none = Policy::default();
    for (tier, kind, who) in [
        (Tier::Owner, RequestKind::Command, Deciders::Sender),
        (Tier::Owner, RequestKind::Elicitation, Deciders::Sender),
        (Tier::Peer, RequestKind::Command, Deciders::Owner),
        (Tier::Peer, RequestKind::FileChange, Deciders::Owner),
        (Tier::Peer, RequestKind::Permissions, Deciders::Owner),
        (Tier::Peer, RequestKind::Elicitation, Deciders::Owner),
        (Tier::Peer, RequestKind::UserInput, Deciders::Sender),
        (Tier::Tool, RequestKind::Command, Deciders::Owner),
        (Tier::Tool, RequestKind::UserInput, Deciders::Owner),
    ] {
        let found = judge(&none, tier, &kind, &run("ls"));
        assert_eq!(
            (found.ruling, found.who),
            (RuleDecision::Ask, who),
            "{tier:?} {kind:?}"
        );
        assert_eq!(found.because, None);
    }
}

#[test]
fn unanswerable_requests_are_always_denied() {
    let policy = Policy {
        rules: vec![rule(RuleDecision::Allow), rule(RuleDecision::Ask)],
    };
    for kind in [RequestKind::ToolCall, RequestKind::Other("x/y".to_owned())] {
        let found = judge(&policy, Tier::Owner, &kind, &Effect::default());
        assert_eq!(found.ruling, RuleDecision::Deny);
    }
}

#[test]
fn the_first_rule_that_matches_counts() {
    let mut policy = commands(RuleDecision::Deny, &["git push"]);
    policy.rules.push(Rule {
        name: "git".to_owned(),
        commands: vec![prefix("git")],
        ..rule(RuleDecision::Allow)
    });
    assert_eq!(ruling(&policy, "git push origin main"), RuleDecision::Deny);
    assert_eq!(ruling(&policy, "git status"), RuleDecision::Allow);
    assert_eq!(ruling(&policy, "git status; git push"), RuleDecision::Deny);
    assert_eq!(ruling(&policy, "ls"), RuleDecision::Ask);
    let found = judge(&policy, Tier::Owner, &RequestKind::Command, &run("git log"));
    assert_eq!(found.because.as_deref(), Some("git"));
}

#[test]
fn allow_rule_matches_codex_command_lines() {
    let policy = commands(RuleDecision::Allow, &["git status", "cargo test"]);
    for line in [
        "git status",
        "git status --short 'a b' \"c\" d\\ e *.rs",
        "/bin/bash -lc 'git status -s'",
        "bash -lc \"cargo test -p x\"",
        "zsh -c 'git status'",
        "git 'status'",
    ] {
        assert_eq!(ruling(&policy, line), RuleDecision::Allow, "{line}");
    }
    for line in [
        "git",
        "git statusx",
        "git push",
        "GIT status",
        "Git Status",
        "/tmp/git status",
        "./git status",
        "g?t status",
        "git st*",
        "PAGER=x git status",
        "sudo git status",
        "/tmp/bash -lc 'git status'",
        "bash -lc 'git status' x",
        "bash -lc 'bash -lc \"git status\"'",
        "git\u{a0}status",
        "ｇｉｔ status",
        "gіt status",
        "git \u{200b}status",
        "git 'status",
        "git status \\",
        "# git status",
        "",
    ] {
        assert_eq!(ruling(&policy, line), RuleDecision::Ask, "{line}");
    }
}

/// Everything that makes two commands of one, or another one.
const TAILS: &[&str] = &[
    "; x",
    ";x",
    "&& x",
    "|| x",
    "| x",
    "& x",
    "&",
    "$(x)",
    "`x`",
    "\nx",
    "\r\nx",
    "> f",
    ">f",
    "2>f",
    ">>f",
    "< f",
    "<(x)",
    "<<E\nx\nE",
    "${X}",
    "$X",
    "\"$(x)\"",
    "\"`x`\"",
    "\"$X\"",
    "(x)",
    "\u{0}",
    "\u{1b}[2J",
    "'",
    "\"",
    "\\\nx",
    "\u{2028}x",
    "\u{85}x",
    "$'a'",
];

#[test]
fn allow_rule_rejects_compound_commands() {
    let policy = commands(RuleDecision::Allow, &["git status"]);
    for tail in TAILS {
        for between in ["", " ", "\t", " -s ", " 'a b' "] {
            let script = format!("git status{between}{tail}");
            for line in [
                script.clone(),
                format!("{tail}{between} git status"),
                quote(&["/bin/bash", "-lc", script.as_str()]),
                quote(&["bash", "-c", script.as_str()]),
                format!("bash -lc 'git status'{between}{tail}"),
            ] {
                assert_ne!(ruling(&policy, &line), RuleDecision::Allow, "{line:?}");
            }
        }
    }
}

/// A second reading of what is safe, so that no accident of the first one counts: outside quotes only plain characters.
fn is_plainly_one_command(script: &str) -> bool {
    let mut quote = None;
    for c in script.chars() {
        match (quote, c) {
            (None, '\'' | '"') => quote = Some(c),
            (Some(open), c) if open == c => quote = None,
            (None | Some('"'), '$' | '`') => return false,
            (None, ';' | '&' | '|' | '<' | '>' | '(' | ')') => return false,
            (_, c) if c.is_control() && c != '\t' => return false,
            _ => {}
        }
    }
    quote.is_none()
}

#[test]
fn random_lines_allow_only_single_commands() {
    const PIECES: &[&str] = &[
        "git", "status", " ", " ", "'", "\"", ";", "|", "&", "$", "(", ")", "`", "\n", ">", "<",
        "x", "GIT", "=", "\t", "ü", "\u{202e}", "#", "*", "-s",
    ];
    let policy = commands(RuleDecision::Allow, &["git status", "git"]);
    let mut dice = Dice::new(7);
    let mut allowed = 0;
    for _ in 0..200_000 {
        let length = dice.below(9);
        let mut script = "git ".to_owned();
        for _ in 0..length {
            script.push_str(PIECES[dice.below(PIECES.len())]);
        }
        let line = match dice.below(2) {
            0 => script.clone(),
            _ => quote(&["/bin/bash", "-lc", script.as_str()]),
        };
        if ruling(&policy, &line) == RuleDecision::Allow {
            allowed += 1;
            assert!(is_plainly_one_command(&script), "{script:?}");
        }
    }
    assert!(allowed > 1_000, "{allowed}");
}

#[test]
fn words_that_were_quoted_are_read_back() {
    let mut dice = Dice::new(11);
    const CHARS: &[char] = &['a', ' ', '\'', '"', '\\', '$', '`', ';', '*', 'ü', '-', '='];
    for _ in 0..20_000 {
        let word = |dice: &mut Dice| -> String {
            (0..dice.below(5))
                .map(|_| CHARS[dice.below(CHARS.len())])
                .collect()
        };
        let words: Vec<String> = (0..=dice.below(3)).map(|_| word(&mut dice)).collect();
        assert_eq!(super::shell::simple(&quote(&words)).as_ref(), Some(&words));
    }
}

#[test]
fn deny_rule_matches_nested_commands() {
    let policy = commands(RuleDecision::Deny, &["git push"]);
    for line in [
        "git push",
        "/bin/bash -lc 'cd x && git push --force'",
        "bash -lc 'make | tee log; git push'",
        "echo $(git push)",
        "echo \"`git push`\"",
        "sudo -u x git push",
        "env A=1 /usr/bin/git push",
        "GIT PUSH",
        "'git' \"push\"",
        "g'i't pu\"sh\"",
        "git \\\n push",
        "$GIT push",
        "git $WHAT",
        "git${IFS}push",
        "/usr/bin/g?t push",
        "ssh host 'cd /x; git push'",
        "bash -c \"bash -c 'bash -c \\\"git push\\\"'\"",
        "echo 'unfinished ; git push",
    ] {
        assert_eq!(ruling(&policy, line), RuleDecision::Deny, "{line:?}");
    }
    for line in [
        "git commit -m \"$MESSAGE\"",
        "ls *.rs",
        "[ -f x ] && make",
        "git pull",
        "echo pushing",
    ] {
        assert_eq!(ruling(&policy, line), RuleDecision::Ask, "{line:?}");
    }
    let rm = commands(RuleDecision::Deny, &["rm"]);
    assert_eq!(ruling(&rm, "ls *"), RuleDecision::Ask);
    assert_eq!(ruling(&rm, "[ -f x ] || { make; }"), RuleDecision::Ask);
    assert_eq!(ruling(&rm, "find . | xargs rm -f"), RuleDecision::Deny);
}

#[test]
fn allow_needs_all_paths_deny_one() {
    let allow = places(RuleDecision::Allow, &["/work/a", "/work/b/"]);
    assert_eq!(
        change(&allow, &["/work/a/x", "/work/b"]),
        RuleDecision::Allow
    );
    assert_eq!(change(&allow, &["a/x", "./b/../a/y"]), RuleDecision::Allow);
    for paths in [
        &["/work/a/x", "/etc/passwd"][..],
        &["/work/a/../../etc/passwd"],
        &["/work/ab"],
        &["/work"],
        &["../a"],
        &["/WORK/a/x"],
        &["/work/а/x"],
        &[],
    ] {
        assert_eq!(change(&allow, paths), RuleDecision::Ask, "{paths:?}");
    }
    let deny = places(RuleDecision::Deny, &["/work/.git"]);
    for paths in [
        &["/work/a", "/work/.git/config"][..],
        &[".git/hooks/x"],
        &["/work/.GIT"],
    ] {
        assert_eq!(change(&deny, paths), RuleDecision::Deny, "{paths:?}");
    }
    assert_eq!(change(&deny, &["/work/.gitignore"]), RuleDecision::Ask);
    let lost = Effect {
        paths: vec!["relative".to_owned()],
        ..Effect::default()
    };
    let found =
        |policy: &Policy| judge(policy, Tier::Owner, &RequestKind::FileChange, &lost).ruling;
    assert_eq!(
        (found(&allow), found(&deny)),
        (RuleDecision::Ask, RuleDecision::Deny)
    );
}

#[test]
fn command_and_path_rules_are_independent() {
    assert_eq!(
        change(&commands(RuleDecision::Allow, &["git"]), &["/x"]),
        RuleDecision::Ask
    );
    assert_eq!(
        ruling(&places(RuleDecision::Allow, &["/"]), "ls"),
        RuleDecision::Ask
    );
    let input = judge(
        &commands(RuleDecision::Deny, &["git"]),
        Tier::Owner,
        &RequestKind::UserInput,
        &run("git"),
    );
    assert_eq!(input.ruling, RuleDecision::Ask);
}

#[test]
fn a_peer_gets_no_approval_by_accident() {
    let any = Policy {
        rules: vec![rule(RuleDecision::Allow)],
    };
    let kinds = [
        RequestKind::Command,
        RequestKind::FileChange,
        RequestKind::Permissions,
    ];
    for kind in &kinds {
        assert_eq!(
            judge(&any, Tier::Owner, kind, &run("ls")).ruling,
            RuleDecision::Allow
        );
        let peer = judge(&any, Tier::Peer, kind, &run("ls"));
        assert_eq!(
            (peer.ruling, peer.who),
            (RuleDecision::Ask, Deciders::Owner)
        );
    }
    let meant = Policy {
        rules: vec![Rule {
            even_peers: true,
            ..rule(RuleDecision::Allow)
        }],
    };
    assert_eq!(
        judge(&meant, Tier::Peer, &kinds[0], &run("ls")).ruling,
        RuleDecision::Allow
    );
    let sender = Policy {
        rules: vec![Rule {
            who: Some(Deciders::Sender),
            even_peers: true,
            ..rule(RuleDecision::Ask)
        }],
    };
    for kind in kinds.iter().chain([&RequestKind::Elicitation]) {
        assert_eq!(
            judge(&sender, Tier::Peer, kind, &run("ls")).who,
            Deciders::Owner
        );
        assert_eq!(
            judge(&sender, Tier::Tool, kind, &run("ls")).who,
            Deciders::Sender
        );
    }
}

#[test]
fn input_and_extra_permissions_always_ask() {
    let any = Policy {
        rules: vec![rule(RuleDecision::Allow)],
    };
    for kind in [RequestKind::UserInput, RequestKind::Elicitation] {
        assert_eq!(
            judge(&any, Tier::Owner, &kind, &Effect::default()).ruling,
            RuleDecision::Ask
        );
    }
    let network = Effect {
        beyond: Some("network access to a.io".to_owned()),
        ..run("git status")
    };
    assert_eq!(
        judge(&any, Tier::Owner, &RequestKind::Command, &network).ruling,
        RuleDecision::Ask
    );
}

#[test]
fn a_prefix_is_plain_words() {
    for text in [
        "", "  ", "git; x", "git $X", "g*", "A=1 git", "~/x", "'", "a\nb", "''", "a|b",
    ] {
        assert_eq!(Prefix::parse(text), None, "{text:?}");
    }
    assert_eq!(
        prefix("git  commit '-m x'").words(),
        ["git", "commit", "-m x"]
    );
}

#[test]
fn unknown_effect_is_never_allowed() {
    let unknown = Effect::default();
    let network = Effect {
        beyond: Some("the network".to_owned()),
        ..Effect::default()
    };
    let said = |policy: &Policy, kind, effect| judge(policy, Tier::Owner, &kind, effect).ruling;
    for then in [RuleDecision::Deny, RuleDecision::Allow] {
        let held = match then {
            RuleDecision::Deny => RuleDecision::Deny,
            RuleDecision::Allow | RuleDecision::Ask => RuleDecision::Ask,
        };
        let (command, path) = (commands(then, &["rm"]), places(then, &["/etc"]));
        assert_eq!(said(&command, RequestKind::Command, &unknown), held);
        assert_eq!(said(&path, RequestKind::FileChange, &unknown), held);
        assert_eq!(said(&path, RequestKind::FileChange, &network), held);
        assert_eq!(said(&path, RequestKind::Permissions, &unknown), held);
        assert_eq!(
            said(&path, RequestKind::Permissions, &network),
            RuleDecision::Ask
        );
    }
}

fn tool_rule(then: RuleDecision, servers: &[&str], tools: &[&str]) -> Rule {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    Rule {
        servers: owned(servers),
        tools: owned(tools),
        ..rule(then)
    }
}

fn tool_ruling(rule: Rule, tier: Tier, server: &str, tool: Option<&str>) -> RuleDecision {
    let effect = Effect {
        mcp_tool: Some(Box::new(McpTool {
            server: server.to_owned(),
            tool: tool.map(str::to_owned),
        })),
        ..Effect::default()
    };
    let kind = &RequestKind::McpTool;
    let case = RuleQuery {
        tier,
        kind,
        effect: &effect,
    };
    Policy { rules: vec![rule] }.judge(case).ruling
}

#[test]
fn mcp_tools_are_allowed_by_name() {
    let ruling = |servers: &[&str], tools: &[&str], server: &str, tool: Option<&str>| {
        let rule = tool_rule(RuleDecision::Allow, servers, tools);
        tool_ruling(rule, Tier::Owner, server, tool)
    };
    let (allow, ask) = (RuleDecision::Allow, RuleDecision::Ask);
    assert_eq!(ruling(&["m"], &["list"], "m", Some("list")), allow);
    assert_eq!(ruling(&["m"], &[], "m", Some("send")), allow);
    assert_eq!(ruling(&["m"], &[], "m", None), allow);
    for (servers, tools, server, tool) in [
        (&["m"][..], &["list"][..], "m", Some("send")),
        (&["m"], &["list"], "m", None),
        (&["m"], &["list"], "M", Some("list")),
        (&["m"], &["list"], "m", Some("List")),
        (&["m"], &[], "n", Some("list")),
        // No server is named: it would be every tool of everybody.
        (&[], &["list"], "m", Some("list")),
        (&[], &[], "m", Some("list")),
    ] {
        let found = ruling(servers, tools, server, tool);
        assert_eq!(found, ask, "{servers:?} {tools:?} {server} {tool:?}");
    }
}

#[test]
fn mcp_tool_denials_cover_unnamed_tools() {
    let ruling = |servers: &[&str], tools: &[&str], tool: Option<&str>| {
        let rule = tool_rule(RuleDecision::Deny, servers, tools);
        tool_ruling(rule, Tier::Owner, "m", tool)
    };
    let (deny, ask) = (RuleDecision::Deny, RuleDecision::Ask);
    assert_eq!(ruling(&["M"], &["SEND"], Some("send")), deny);
    assert_eq!(ruling(&["m"], &["send"], None), deny);
    assert_eq!(ruling(&[], &["send"], Some("send")), deny);
    assert_eq!(ruling(&[], &[], Some("send")), deny);
    assert_eq!(ruling(&["m"], &["send"], Some("list")), ask);
    assert_eq!(ruling(&["n"], &[], Some("send")), ask);
}

#[test]
fn mcp_tools_for_peers_need_even_peers() {
    let rule = |even_peers| Rule {
        even_peers,
        ..tool_rule(RuleDecision::Allow, &["m"], &[])
    };
    let ruling = |even| tool_ruling(rule(even), Tier::Peer, "m", Some("list"));
    assert_eq!(ruling(false), RuleDecision::Ask);
    assert_eq!(ruling(true), RuleDecision::Allow);
    let command = Effect {
        command: Some("ls".to_owned()),
        ..Effect::default()
    };
    let about_tools = Policy {
        rules: vec![rule(true)],
    };
    let case = RuleQuery {
        tier: Tier::Owner,
        kind: &RequestKind::Command,
        effect: &command,
    };
    assert_eq!(about_tools.judge(case).ruling, RuleDecision::Ask);
}
