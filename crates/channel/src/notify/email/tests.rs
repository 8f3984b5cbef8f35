//! Whole conversations with a mail server.

use super::*;
use std::os::unix::fs::PermissionsExt;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

const MAIL: Mail<'_> = Mail {
    id: "alert-1",
    subject: "Fünf Fragen\r\nBcc: eve@example.org",
    text: "Zeile ü\n.\nQUIT\r\n\r\nhttp://127.0.0.1:4141/console/#/requests/1",
};

/// Takes one conversation, and answers the line that begins so with this.
async fn server(refuses: &'static str, with: &'static str) -> (u16, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let talk = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let (read, mut write) = stream.into_split();
        let mut lines = BufReader::new(read).lines();
        let (mut said, mut in_data) = (Vec::new(), false);
        write
            .write_all(b"220 mail.example ESMTP\r\n")
            .await
            .unwrap();
        while let Ok(Some(line)) = lines.next_line().await {
            said.push(line.clone());
            if in_data && line != "." {
                continue;
            }
            let verb = line.split([' ', ':']).next().unwrap_or_default();
            let answer = match verb {
                verb if !refuses.is_empty() && verb == refuses => with,
                "EHLO" => "250-mail.example\r\n250 AUTH PLAIN",
                "AUTH" => "235 good",
                "DATA" => {
                    in_data = true;
                    "354 go on"
                }
                "." => {
                    in_data = false;
                    "250 taken"
                }
                "QUIT" => "221 bye",
                _ => "250 ok",
            };
            let answer = format!("{answer}\r\n");
            if write.write_all(answer.as_bytes()).await.is_err() || verb == "QUIT" {
                break;
            }
        }
        said
    });
    (port, talk)
}

fn mailer(port: u16) -> Mailer {
    Mailer {
        host: "127.0.0.1".to_owned(),
        port,
        tls: MailTls::None,
        user: None,
        password_file: None,
        from: "bridge@example.org".to_owned(),
    }
}

#[tokio::test]
async fn mail_is_one_message_to_one_address() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("password");
    std::fs::write(&file, "canary\n").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let (port, talk) = server("", "").await;
    let mailer = Mailer {
        user: Some("bridge".to_owned()),
        password_file: Some(file),
        ..mailer(port)
    };
    mailer.send("ann@example.org", MAIL).await.unwrap();
    let said = talk.await.unwrap();
    let is = |line: &str| said.iter().filter(|said| *said == line).count();
    assert_eq!(is("MAIL FROM:<bridge@example.org>"), 1, "{said:?}");
    let to: Vec<_> = said
        .iter()
        .filter(|line| line.starts_with("RCPT"))
        .collect();
    assert_eq!(to, ["RCPT TO:<ann@example.org>"]);
    assert_eq!(is("Message-ID: <alert-1@example.org>"), 1, "{said:?}");
    assert_eq!(is("Auto-Submitted: auto-generated"), 1, "{said:?}");
    assert!(said.iter().any(|line| line.starts_with("AUTH PLAIN ")));
    let head: Vec<_> = said.iter().take_while(|line| !line.is_empty()).collect();
    assert!(!head.iter().any(|line| line.starts_with("Bcc")), "{said:?}");
    assert!(head.iter().any(|line| line.starts_with("Subject: ")));
    assert!(!format!("{mailer:?}").contains("canary"));
}

#[tokio::test]
async fn refused_mail_has_its_class() {
    for (refuses, with, class) in [
        ("RCPT", "550 no such user", Class::Permanent),
        ("MAIL", "451 later", Class::Transient),
        ("EHLO", "530 log in first", Class::Config),
    ] {
        let (port, talk) = server(refuses, with).await;
        let refused = mailer(port)
            .send("ann@example.org", MAIL)
            .await
            .unwrap_err();
        assert_eq!(refused.class, class, "{refuses}: {refused:?}");
        talk.abort();
    }
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = nobody.local_addr().unwrap().port();
    drop(nobody);
    let refused = mailer(port)
        .send("ann@example.org", MAIL)
        .await
        .unwrap_err();
    assert_eq!(refused.class, Class::Transient, "{refused:?}");
}

#[tokio::test]
async fn encryption_is_never_left_out() {
    for tls in [MailTls::StartTls, MailTls::Tls] {
        let (port, talk) = server("", "").await;
        let mailer = Mailer {
            tls,
            ..mailer(port)
        };
        let refused = mailer.send("ann@example.org", MAIL).await.unwrap_err();
        assert!(refused.class != Class::Permanent, "{refused:?}");
        let said = talk.await.unwrap();
        assert!(!said.iter().any(|line| line.starts_with("MAIL")), "{tls:?}");
    }
}

#[test]
fn unencrypted_mail_stays_on_this_machine() {
    let elsewhere = Mailer {
        host: "mail.example".to_owned(),
        ..mailer(25)
    };
    let why = elsewhere.check("ann@example.org").unwrap_err();
    assert!(why.contains("starttls"), "{why}");
    for bad in ["", "ann", "ann@example.org\r\nBcc: x@example.org", "a@b@c"] {
        assert!(mailer(25).check(bad).is_err(), "{bad:?}");
    }
    let half = Mailer {
        user: Some("bridge".to_owned()),
        ..mailer(25)
    };
    assert!(half.check("ann@example.org").is_err());
}
