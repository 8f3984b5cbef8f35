//! `policy explain`: what would happen, without a daemon.

use crate::world::World;

const RULES: &str = "\
[[rules]]
name = 'pushing'
command = ['git push']
then = 'ask'
who = 'owner'

[[rules]]
name = 'git'
tier = ['owner', 'tool']
command = ['git']
then = 'allow'

[[rules]]
name = 'hooks'
path = ['/srv/work/.git']
then = 'deny'
";

#[tokio::test]
async fn policy_explain_reports_decision_and_rule() {
    let world = World::with_settings(RULES).await;
    let explain = async |args: &[&str]| {
        let all: Vec<&str> = ["policy", "explain", "--json"]
            .iter()
            .chain(args)
            .copied()
            .collect();
        world.json(&all).await
    };
    let git = explain(&["--tier", "tool", "--", "git", "status"]).await;
    assert_eq!(
        (&git["decision"], &git["rule"]),
        (&"allow".into(), &"git".into()),
        "{git}"
    );
    let push = explain(&[
        "--channel",
        "local",
        "--",
        "/bin/bash -lc 'make && git push'",
    ])
    .await;
    assert_eq!(
        (&push["decision"], &push["rule"]),
        (&"ask".into(), &"pushing".into()),
        "{push}"
    );
    assert_eq!(
        (&push["who"], &push["tier"]),
        (&"owner".into(), &"owner".into()),
        "{push}"
    );
    let both = explain(&["--tier", "owner", "--", "git status; ls"]).await;
    assert_eq!(
        (&both["decision"], &both["who"]),
        (&"ask".into(), &"sender".into()),
        "{both}"
    );
    let peer = explain(&["--tier", "peer", "--escalated", "--", "git", "status"]).await;
    assert_eq!(
        (&peer["decision"], &peer["who"]),
        (&"ask".into(), &"owner".into()),
        "{peer}"
    );
    assert_eq!(peer["sandbox"], "read-only");
    let means = peer["accept_means"].as_str().unwrap();
    assert!(means.contains("outside the sandbox"), "{means}");
    let hooks = [
        "--tier",
        "owner",
        "--cwd",
        "/srv/work",
        "--path",
        "src/../.git/hooks/x",
    ];
    assert_eq!(explain(&hooks).await["rule"], "hooks");

    let words = world
        .run(&["policy", "explain", "--tier", "owner", "--", "gіt", "push"])
        .await;
    words.must(0, &[]);
    assert!(words.stdout.starts_with("ask: whoever sent"), "{words:?}");
    assert!(words.stdout.contains("g<U+0456>t"), "{words:?}");
}

#[tokio::test]
async fn policy_explain_rejects_invalid_input() {
    let world = World::with_settings("[[rules]]\nname = 'x'\nthen = 'allow'\n").await;
    let refused = world
        .run(&["policy", "explain", "--tier", "owner", "--", "ls"])
        .await;
    refused.must(1, &["even_peers"]);
    std::fs::write(world.config_file(), "").unwrap();
    let nowhere = world
        .run(&["policy", "explain", "--channel", "fax", "--", "ls"])
        .await;
    nowhere.must(1, &["there is no channel `fax`"]);
    let nobody = [
        "policy",
        "explain",
        "--channel",
        "task",
        "--sender",
        "ci",
        "--",
        "ls",
    ];
    world.run(&nobody).await.must(1, &["leave the sender out"]);
}

#[tokio::test]
async fn policy_explain_maps_sender_to_tier() {
    let world = World::new().await;
    for (who, tier) in [(&[][..], "owner"), (&["--sender", "ci"], "tool")] {
        let asked = ["policy", "explain", "--json", "--channel", "local"];
        let all: Vec<&str> = asked
            .iter()
            .chain(who)
            .chain(&["--", "ls"])
            .copied()
            .collect();
        assert_eq!(world.json(&all).await["tier"], tier, "{who:?}");
    }
}
