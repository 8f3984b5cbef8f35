//! Words of the protocol: enums whose values Codex may add to at any time.
//!
//! All of them are declared in one place by one macro, so that [`each_word_list`] is complete.
//! Enums that carry data live with the messages they belong to.

/// Declares open enums: each known word is a variant, every other value is kept as `Other`.
/// A value that is no string at all is kept as its JSON text, so it can not fail a message.
macro_rules! words {
    ($(
        $(#[$meta:meta])*
        $name:ident = $schema:literal { $($(#[$vmeta:meta])* $variant:ident = $word:literal,)+ }
    )+) => {
        $(
            $(#[$meta])*
            #[derive(Debug, Clone, PartialEq, Eq, Hash)]
            pub enum $name {
                $($(#[$vmeta])* $variant,)+
                /// A value this version of the bridge has no name for.
                Other(String),
            }

            impl $name {
                /// Every word that has a variant.
                pub const WORDS: &'static [&'static str] = &[$($word),+];

                /// The word on the wire.
                pub fn as_str(&self) -> &str {
                    match self {
                        $(Self::$variant => $word,)+
                        Self::Other(word) => word,
                    }
                }

                fn from_word(word: &str) -> Self {
                    match word {
                        $($word => Self::$variant,)+
                        other => Self::Other(other.to_owned()),
                    }
                }
            }

            impl std::fmt::Display for $name {
                fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                    f.write_str(self.as_str())
                }
            }

            impl serde::Serialize for $name {
                fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                    serializer.serialize_str(self.as_str())
                }
            }

            impl<'de> serde::Deserialize<'de> for $name {
                fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                    let value = serde_json::Value::deserialize(deserializer)?;
                    Ok(match value.as_str() {
                        Some(word) => Self::from_word(word),
                        None => Self::Other(value.to_string()),
                    })
                }
            }
        )+

        /// Shows every list of words with the schema definition it comes from.
        pub fn each_word_list(show: &mut dyn FnMut(&'static str, &'static [&'static str])) {
            $(show($schema, $name::WORDS);)+
        }
    };
}

words! {
    /// How a turn stands. There is no `cancelled`.
    TurnStatus = "TurnStatus" {
        Completed = "completed",
        Interrupted = "interrupted",
        Failed = "failed",
        InProgress = "inProgress",
    }

    /// What an agent message is. Models do not mark it consistently: absent means unknown.
    MessagePhase = "MessagePhase" {
        /// Narration on the way; never an answer.
        Commentary = "commentary",
        /// Stable text that more may follow.
        PartialAnswer = "partial_answer",
        /// The declared end of the turn's text.
        FinalAnswer = "final_answer",
    }

    /// How much of a turn's items a response holds. Anything but `Full` hides effects.
    ItemsView = "TurnItemsView" {
        NotLoaded = "notLoaded",
        Summary = "summary",
        Full = "full",
    }

    CommandStatus = "CommandExecutionStatus" {
        InProgress = "inProgress",
        Completed = "completed",
        Failed = "failed",
        /// Refused before it ran.
        Declined = "declined",
    }

    PatchStatus = "PatchApplyStatus" {
        InProgress = "inProgress",
        Completed = "completed",
        Failed = "failed",
        /// Refused before it was applied.
        Declined = "declined",
    }

    ToolStatus = "McpToolCallStatus" {
        InProgress = "inProgress",
        Completed = "completed",
        Failed = "failed",
    }

    /// When Codex asks. Codex also takes a `granular` object, which reads as `Other`.
    ApprovalPolicy = "AskForApproval" {
        /// Asks for nearly everything, and an accept may run the command outside the sandbox.
        Untrusted = "untrusted",
        OnRequest = "on-request",
        Never = "never",
    }

    /// Who answers what Codex asks.
    ApprovalsReviewer = "ApprovalsReviewer" {
        User = "user",
        AutoReview = "auto_review",
        GuardianSubagent = "guardian_subagent",
    }

    /// The sandbox as `thread/start` and `thread/resume` take it; a turn takes
    /// [`super::config::SandboxPolicy`] instead.
    SandboxMode = "SandboxMode" {
        ReadOnly = "read-only",
        WorkspaceWrite = "workspace-write",
        DangerFullAccess = "danger-full-access",
    }

    HistoryMode = "ThreadHistoryMode" {
        Legacy = "legacy",
        Paginated = "paginated",
    }

    SortDirection = "SortDirection" {
        Ascending = "asc",
        Descending = "desc",
    }

    /// Why an active thread waits.
    ActiveFlag = "ThreadActiveFlag" {
        WaitingOnApproval = "waitingOnApproval",
        WaitingOnUserInput = "waitingOnUserInput",
    }

    /// The subject of a command approval.
    CommandApprovalKind = "CommandExecutionApprovalKind" {
        Command = "command",
        /// Input for a command that already runs.
        WriteStdin = "writeStdin",
    }

    PlanStepStatus = "TurnPlanStepStatus" {
        Pending = "pending",
        InProgress = "inProgress",
        Completed = "completed",
    }

    /// How long a permission grant holds.
    GrantScope = "PermissionGrantScope" {
        Turn = "turn",
        Session = "session",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn unknown_values_are_kept_and_never_fail() {
        let read = |value: Value| serde_json::from_value::<TurnStatus>(value).unwrap();
        assert_eq!(read(json!("completed")), TurnStatus::Completed);
        assert_eq!(
            read(json!("paused")),
            TurnStatus::Other("paused".to_owned())
        );
        assert_eq!(read(json!(7)), TurnStatus::Other("7".to_owned()));
        assert_eq!(
            read(json!({"a": 1, "b": 2})),
            TurnStatus::Other(r#"{"a":1,"b":2}"#.to_owned())
        );
    }

    #[test]
    fn every_word_reads_back_as_itself() {
        for word in ApprovalPolicy::WORDS {
            let policy: ApprovalPolicy = serde_json::from_value(json!(word)).unwrap();
            assert!(!matches!(policy, ApprovalPolicy::Other(_)), "{word}");
            assert_eq!(serde_json::to_value(&policy).unwrap(), json!(word));
        }
    }
}
