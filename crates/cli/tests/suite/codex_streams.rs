//! What comes from Codex is too much or no JSON: rows C5 and C6 of the fault matrix. Memory stays bounded, a bad
//! line costs itself, and a line beyond all measure costs the process but not the answer.

use crate::fake::{Fake, PIPES, peak_mib};
use crate::world::World;

/// Far above what a daemon needs, far below what a flood brings.
const PEAK_MIB: u64 = 128;

/// C5: 20,000 pieces and one of 2 MB arrive whole, and the daemon does not grow with them.
#[tokio::test]
async fn c5_delta_flood_arrives_whole() {
    let world = World::new().await;
    let daemon = world.daemon().await;
    let words: Vec<String> = (0..20_000).map(|n| format!("w{n}")).collect();
    let flood = world.ask("a", "stream:20000:0").await;
    assert_eq!(flood, words.join(" "));
    let peak = peak_mib(daemon.pid());
    assert!(peak < PEAK_MIB, "{peak} MiB");
    let huge = world.ask("b", "big:2000000").await;
    assert_eq!(huge.len(), 2_000_000);
    assert_eq!(daemon.stop().await, Some(0));
}

/// C5: what nobody asked for is read and dropped, twice as much as the daemon may ever hold, and the turn behind it
/// ends.
#[tokio::test]
async fn c5_notification_flood_uses_bounded_memory() {
    let flood = |at: &str, method: &str, lines: u32, bytes: u32| {
        format!(
            r#"{{"at": "{at}", "nth": 1, "do": "flood", "method": "{method}", "lines": {lines}, "bytes": {bytes}}}"#
        )
    };
    let script = [
        flood("turn/started", "thread/dreamt", 1 << 12, 1 << 15),
        flood(
            "turn/completed",
            "item/reasoning/textDelta",
            1 << 5,
            1 << 22,
        ),
    ];
    let fake = Fake::start(PIPES, &script.join("\n")).await;
    assert_eq!(fake.world.ask("a", "echo:behind it").await, "behind it");
    let peak = peak_mib(fake.daemon.pid());
    assert!(peak < PEAK_MIB, "{peak} MiB");
    assert_eq!(fake.texts(), ["echo:behind it"]);
    fake.lives_on().await;
}

/// C6: lines that are no message are dropped and said, and the turn goes on.
#[tokio::test]
async fn c6_malformed_lines_are_skipped() {
    let odd = [
        r"not json at all\n",
        r"\u0000\u0000\n",
        r"\u00ff\u00fe\n",
        r#"{\"method\": \"a\"} {\"method\": \"b\"}\n"#,
        r"[1, 2]\n\n\r\nnull\n",
        r#"{\"id\": {}, \"result\": 1}\n"#,
    ];
    let script: Vec<String> = odd
        .iter()
        .map(|text| format!(r#"{{"at": "turn/started", "do": "raw", "latin1": "{text}"}}"#))
        .collect();
    for transport in ["", PIPES] {
        let mut fake = Fake::start(transport, &script.join("\n")).await;
        assert_eq!(fake.world.ask("a", "echo:one").await, "one");
        assert_eq!(fake.world.ask("a", "echo:two").await, "two");
        fake.daemon
            .log
            .wait_for("a text of codex was dropped")
            .await;
        assert_eq!(fake.texts(), ["echo:one", "echo:two"]);
        assert_eq!(fake.calls("start").len(), 1, "the same Codex all the time");
        fake.lives_on().await;
    }
}

/// C6: half a line and then nothing; the answer was on disk and is read from there.
#[tokio::test]
async fn c6_torn_line_costs_no_answer() {
    let script = r#"{"at": "turn/completed", "nth": 1, "do": "raw", "latin1": "{\"method\": \"turn/comp"}
{"at": "turn/completed", "nth": 1, "do": "exit", "code": 1}"#;
    let fake = Fake::start(PIPES, script).await;
    let ended = fake.world.run(&["send", "--json", "echo:the answer"]).await;
    let sent: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(sent["answer"]["text"], "the answer", "{sent:#}");
    assert_eq!(sent["answer"]["source"], "harvested");
    assert_eq!(fake.texts(), ["echo:the answer"], "one turn");
    fake.lives_on().await;
}

/// C6: a line of 65 MiB is not kept: that Codex is ended, and the turn is looked for.
#[tokio::test]
async fn c6_oversized_line_ends_codex_keeps_answer() {
    let script = r#"{"at": "turn/completed", "nth": 1, "do": "long", "bytes": 68157440}"#;
    let mut fake = Fake::start(PIPES, script).await;
    let ended = fake.world.run(&["send", "--json", "echo:the answer"]).await;
    let sent: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(sent["answer"]["text"], "the answer", "{sent:#}");
    assert_eq!(sent["answer"]["source"], "harvested");
    let log = fake.daemon.log.wait_for("codex is gone").await;
    assert!(log.contains("longer than"), "{log}");
    let peak = peak_mib(fake.daemon.pid());
    assert!(
        peak < PEAK_MIB + 128,
        "the line's buffer and no more: {peak} MiB"
    );
    assert_eq!(fake.texts(), ["echo:the answer"], "one turn");
    assert_eq!(fake.calls("start").len(), 2);
    fake.lives_on().await;
}
