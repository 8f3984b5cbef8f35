//! Names of spans and attributes. Those that begin with `gen_ai.` are OpenTelemetry's semantic conventions for generative
//! AI, which are still in development: a change of theirs is a change of this file.

pub const AGENT_NAME: &str = "gen_ai.agent.name";
/// Codex's thread.
pub const CONVERSATION: &str = "gen_ai.conversation.id";
pub const INPUT: &str = "gen_ai.input.messages";
pub const INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
pub const MODEL: &str = "gen_ai.request.model";
pub const OPERATION: &str = "gen_ai.operation.name";
pub const OUTPUT: &str = "gen_ai.output.messages";
pub const OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";
pub const PROVIDER: &str = "gen_ai.provider.name";
pub const TOOL_CALL: &str = "gen_ai.tool.call.id";
pub const TOOL_NAME: &str = "gen_ai.tool.name";

/// Of OpenTelemetry's general conventions.
pub const ERROR: &str = "error.type";

pub const APPROVAL_DECISION: &str = "codex_bridge.approval.decision";
pub const APPROVAL_KIND: &str = "codex_bridge.approval.kind";
pub const APPROVAL_STATE: &str = "codex_bridge.approval.state";
pub const APPROVAL_VIA: &str = "codex_bridge.approval.via";
pub const ATTEMPT: &str = "codex_bridge.attempt";
pub const CHANNEL: &str = "codex_bridge.channel";
/// Our conversation, which may have had several threads.
pub const LANE: &str = "codex_bridge.conversation.id";
pub const MESSAGE: &str = "codex_bridge.message.id";
pub const MESSAGE_STATE: &str = "codex_bridge.message.state";
pub const REPLY_KIND: &str = "codex_bridge.reply.kind";
pub const REPLY_ORDINAL: &str = "codex_bridge.reply.ordinal";
pub const REPLY_STATE: &str = "codex_bridge.reply.state";
pub const REPLY_TRIES: &str = "codex_bridge.reply.tries";
pub const SENDER_KIND: &str = "codex_bridge.sender.kind";
pub const TOOL_DECLINED: &str = "codex_bridge.tool.declined";
pub const TOOL_HEADLINE: &str = "codex_bridge.tool.headline";
pub const TRANSITION: &str = "codex_bridge.transition";
pub const TURN_STATE: &str = "codex_bridge.turn.state";

/// The agent that runs turns.
pub const CODEX: &str = "codex";
/// Whose models it calls, as the conventions name them.
pub const OPENAI: &str = "openai";
pub const INVOKE_AGENT: &str = "invoke_agent";
pub const EXECUTE_TOOL: &str = "execute_tool";
