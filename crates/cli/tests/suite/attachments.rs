//! Files of a chat, through the whole program: pictures reach the model, other files the working directory, what Codex
//! sends comes back as an attachment, and a death between keeping and acknowledging loses none of them.

use crate::chat::{Chat, edition};
use crate::world::Running;
use bridge_sim::molecule::{Edition, Said, SaidFile};

/// A picture of 8 by 8 pixels.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x08\0\0\0\x08\x08\x02\0\0\0\x4b\x6d\x29\xdc\0\0\0\x11IDAT\x78\
\xda\x63\xf8\xcf\xc0\x80\x15\x31\x0c\x2d\x09\0\x28\xff\x3f\xc1\xce\x77\xc8\x4f\0\0\0\0IEND\xae\x42\x60\x82";

/// A chat on a platform of this edition.
async fn chat(of: Edition) -> Chat {
    Chat::with(edition(of), "").await
}

fn says(chat: &Chat, text: &str, files: &[(&str, &[u8])]) {
    chat.says_with(&said(text, files));
}

async fn until_acked(chat: &Chat) {
    let all = |chat: &Chat| {
        let files = chat.platform.files_of(&chat.us);
        !files.is_empty() && files.iter().all(|file| file.acked)
    };
    chat.until("acks", all).await;
}

/// What the commands of the turn that was asked `text` printed.
fn printed(chat: &Chat, text: &str) -> String {
    let requests = chat.world.model.requests();
    let of_it = requests.iter().filter(|seen| seen.last().contains(text));
    of_it.flat_map(|seen| seen.outputs.clone()).collect()
}

fn said(text: &str, files: &[(&str, &[u8])]) -> Said {
    let file = |(name, bytes): &(&str, &[u8])| SaidFile {
        name: (*name).to_owned(),
        media_type: "text/plain".to_owned(),
        bytes: bytes.to_vec(),
    };
    Said {
        files: files.iter().map(file).collect(),
        ..Said::text(text)
    }
}

#[tokio::test]
async fn image_reaches_model_file_reaches_workdir() {
    let chat = chat(Edition::New).await;
    let daemon = chat.daemon().await;
    let text = "shell:cat attachments/*/notes.txt; echo; stat -c %a attachments/*/* ;; echo:read";
    let files: [(&str, &[u8]); 2] = [("../x/notes.txt", b"remember the milk"), ("pic.png", PNG)];
    says(&chat, text, &files);
    let bubbles = chat.shown(1).await;
    assert_eq!(bubbles[0].text, "read");
    let printed = printed(&chat, "notes.txt");
    assert!(printed.contains("remember the milk"), "{printed}");
    // Codex adds lines of its own, with numbers in them.
    let rights: Vec<_> = printed.lines().filter(|line| line.len() == 3).collect();
    assert_eq!(rights, ["600", "600"], "{printed}");
    let asked = chat.world.model.requests();
    assert!(asked.iter().all(|seen| seen.images == 1), "{asked:#?}");
    assert!(
        asked[0]
            .last()
            .contains("/notes.txt (text/plain, 17 bytes)"),
        "{asked:#?}"
    );
    until_acked(&chat).await;
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn peer_image_reaches_model() {
    let chat = chat(Edition::New).await;
    let daemon = chat.daemon().await;
    let files: [(&str, &[u8]); 2] = [("pic.png", PNG), ("notes.txt", b"remember the milk")];
    let said = said("shell:cat attachments/*/notes.txt ;; echo:seen", &files);
    let (peer, us) = (&chat.peer, &chat.us);
    chat.platform.peer_says_with(peer, us, &said).unwrap();
    let answers = chat.peer_inbox(1).await;
    assert_eq!(answers[0].text, "seen", "{answers:#?}");
    let asked = chat.world.model.requests();
    assert!(asked.iter().all(|seen| seen.images == 1), "{asked:#?}");
    assert!(printed(&chat, "seen").contains("remember the milk"));
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn outbox_file_returns_as_attachment() {
    let chat = chat(Edition::New).await;
    let daemon = chat.daemon().await;
    let text = "shell:d=outbox/$(basename \"$PWD\"); mkdir -p $d && printf made > $d/result.txt ;; echo:here";
    says(&chat, text, &[]);
    let bubbles = chat.shown(1).await;
    assert_eq!(bubbles[0].text, "here");
    let attachments = &bubbles[0].attachments;
    assert_eq!(attachments.len(), 1, "{attachments:?}");
    assert_eq!(attachments[0]["name"], "result.txt");
    let uploaded = chat.platform.files_of(&chat.us);
    assert_eq!(
        (uploaded.len(), uploaded[0].bytes.as_slice()),
        (1, &b"made"[..])
    );
    says(&chat, "echo:again", &[]);
    let bubbles = chat.shown(2).await;
    assert_eq!(bubbles[1].attachments.len(), 0);
    assert_eq!(daemon.stop().await, Some(0));
}

/// On the older platform an upload is gone once it is acknowledged: an early ack would lose it with the daemon.
async fn dies_while_a_file_is_taken_in(point: &str) {
    let chat = chat(Edition::Seed).await;
    let mut command = chat.world.command(&["run"]);
    command.env("CODEX_BRIDGE_FAIL_POINT", point);
    let doomed = Running::of(command);
    let text = "shell:cat attachments/*/notes.txt ;; echo:read";
    says(&chat, text, &[("notes.txt", b"remember the milk")]);
    assert_eq!(doomed.ended().await.code, None, "{point}");
    assert!(!chat.platform.files_of(&chat.us)[0].acked, "{point}");
    let daemon = chat.daemon().await;
    assert_eq!(chat.shown(1).await[0].text, "read", "{point}");
    assert!(
        printed(&chat, "notes.txt").contains("remember the milk"),
        "{point}"
    );
    until_acked(&chat).await;
    assert_eq!(
        chat.world.times_asked("notes.txt"),
        2,
        "{point}: one turn of two steps"
    );
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn upload_is_acked_only_after_commit() {
    // The first page only says where the feed is read from.
    for point in ["receive_page.before#2", "receive_page.after#2"] {
        dies_while_a_file_is_taken_in(point).await;
    }
}

/// Codex owns its working directory, and what it plants there must not lead the daemon elsewhere.
#[tokio::test]
async fn threat_14_planted_symlink_cannot_redirect_attachments() {
    let chat = chat(Edition::New).await;
    let daemon = chat.daemon().await;
    let elsewhere = chat.world.path().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let plant = format!(
        "shell:ln -s {} attachments ;; echo:planted",
        elsewhere.display()
    );
    says(&chat, &plant, &[]);
    chat.shown(1).await;
    says(&chat, "echo:read", &[("notes.txt", b"x")]);
    let bubbles = chat.shown(2).await;
    assert!(
        bubbles[1].text.contains("`attachments` is a link"),
        "{:?}",
        bubbles[1]
    );
    assert_eq!(std::fs::read_dir(&elsewhere).unwrap().count(), 0);
    // The operator mends it, and the message is answered.
    let work = std::fs::read_dir(chat.world.state_dir().join("work")).unwrap();
    let work = work.map(|entry| entry.unwrap().path()).next().unwrap();
    std::fs::remove_file(work.join("attachments")).unwrap();
    assert_eq!(chat.shown(3).await[2].text, "read");
    assert_eq!(daemon.stop().await, Some(0));
}

#[tokio::test]
async fn p10_huge_file_stays_out_of_memory() {
    let chat = chat(Edition::New).await;
    let daemon = chat.daemon().await;
    says(&chat, "echo:read", &[("huge.bin", &vec![7; 90 << 20])]);
    assert_eq!(chat.shown(1).await[0].text, "read");
    let shown = chat.world.model.requests();
    assert!(
        shown[0]
            .last()
            .contains("`huge.bin`: it is longer than 26214400 bytes"),
        "{shown:#?}"
    );
    let status = std::fs::read_to_string(format!("/proc/{}/status", daemon.pid())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak: u64 = peak
        .unwrap()
        .trim()
        .trim_end_matches(" kB")
        .parse()
        .unwrap();
    assert!(peak < 90 << 10, "{peak} kB");
    assert_eq!(daemon.stop().await, Some(0));
}
