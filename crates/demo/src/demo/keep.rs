//! What `--keep` leaves to look at in the console: people and agents who were answered, questions of Codex, a failure,
//! work in progress and messages that wait for it.

use super::chapters::{PATIENCE, chapter};
use super::say;
use super::setup::DemoSetup;
use crate::DemoClient;
use anyhow::Context;
use bridge_daemon::term::Paint;
use bridge_front::StartArgs;

/// The gate that work in progress waits at, so that it is in progress for as long as somebody looks.
pub(super) const WORK: &str = "work";

const ANSWERED: [(&str, &str); 8] = [
    (
        "release-2.4",
        "What is in 2.4? echo:## Release 2.4\n\n| change | who asked |\n| --- | --- |\n| uploads go on after a lost connection | ops |\n| `--since` for the report | mara |\n\n1. Merge **#812** first: the other one needs its migration.\n2. Then tag it:\n\n```sh\ngit tag -s v2.4.0\n```\n\nNothing else is open.",
    ),
    (
        "release-2.4",
        "And what is left for 2.5? echo:Two things: the importer and its documentation.",
    ),
    (
        "ticket-1187",
        "Why does the nightly import fail? shell:echo 'row 40,211: amount is not a number' ;; echo:Row 40,211 has an amount with a comma: `1,250.00`. The parser takes points only.",
    ),
    (
        "ticket-1187",
        "Can it be mended without a new release? echo:Yes: set `import.decimal = \"auto\"`.",
    ),
    (
        "onboarding",
        "How do I run the tests? echo:`cargo test`, and `cargo test -- --ignored` for the slow ones.",
    ),
    (
        "onboarding",
        "Where is the schema? shell:ls ;; echo:In `schema/`, one file for each version.",
    ),
    (
        "weekly-report",
        "How many tickets were closed? echo:41 this week, 37 the week before.",
    ),
    (
        "weekly-report",
        "Who waits longest? echo:Ticket 1102, for eleven days: it needs a decision about refunds.",
    ),
];

const FAILING: [(&str, &str); 2] = [
    (
        "billing-export",
        "Export the invoices of October. fail:400:1",
    ),
    ("billing-export", "Then those of September. fail:400:1"),
];

/// Tasks that ask something: their prompts, and what they may do by themselves.
const ASKING: [(&str, &str); 3] = [
    (
        "Publish the tag. escal:git -C . push origin v2.4.0 ;; echo:Published.",
        "workspace-write",
    ),
    (
        "Clear the caches of the build machine. escal:rm -rf target/cache && mkdir -p target/cache ;; echo:Cleared.",
        "workspace-write",
    ),
    (
        "Write down how the import reads amounts. patch:docs/amounts.md:Amounts have a point or a comma; the last one divides. ;; echo:Written.",
        "read-only",
    ),
];

pub(super) async fn fill<C: DemoClient>(setup: &DemoSetup<C>, paint: Paint) -> anyhow::Result<()> {
    chapter(paint, "6. Things to look at and decide, in the console");
    for (conversation, text) in ANSWERED {
        let answer = setup.client.send(conversation, text, PATIENCE);
        answer.await.context(conversation)?;
    }
    for (conversation, text) in FAILING {
        setup.client.submit(conversation, text).await?;
    }
    for (n, (prompt, sandbox)) in ASKING.into_iter().enumerate() {
        let directory = setup.project(&format!("shop-{n}"))?;
        let terms = StartArgs {
            prompt: prompt.to_owned(),
            cwd: Some(directory.display().to_string()),
            sandbox: Some(sandbox.to_owned()),
            ..StartArgs::default()
        };
        setup.client.start_task(&terms).await?;
    }
    let text = format!(
        "Go through the slow tests. shell:echo '3 of 112 take longer than 5 s' ;; say:Three tests are slow. I look at the first. hold:{WORK} echo:All three wait for a clock; they use virtual time now."
    );
    setup.client.submit("slow-tests", &text).await?;
    setup.model.wait_held(WORK).await?;
    let waiting = "And the tests of the importer? echo:They are fast.";
    setup.client.submit("slow-tests", waiting).await?;
    let address = setup.client.console().await?;
    say("  Three questions wait for you, two messages failed, and one is at work.");
    say("  This address signs one browser in:");
    say("");
    say(&format!("  {}", paint.bold(&address)));
    say("");
    say("  For commands in another terminal:");
    say(&format!(
        "  export CODEX_BRIDGE_STATE_DIR={}",
        setup.state_dir().display()
    ));
    say("");
    say("  Ctrl-C ends and removes everything.");
    Ok(())
}
