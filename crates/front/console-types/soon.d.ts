// Answers of routes that the generated document does not have yet. When it has them, `tsc` finds each twice: remove it here.

declare namespace Api {
  type EndsView = { answered: number; failed: number; stopped: number; p50_ms: number | null; p95_ms: number | null };
  type FiguresView = {
    since: string; hours: (EndsView & { at: string })[]; total: EndsView;
    senders: { channel: string; sender: string; messages: number; tokens: number }[]; failures: { class: string; messages: number }[]; cut: boolean;
  };
  type FoundMessage = { message_id: string; conversation_id: string; channel: string; conversation: string; sender: string; received_at: string; phase: string; place: string; excerpt: string };
  type SearchList = { found: FoundMessage[]; looked_at: number; detail: string; next: number | null };
  type BudgetView = { turns: number | null; tokens: number | null; bytes: number | null };
  type SenderView = { channel: string; sender: string; tier: string; messages: number; newest_at: string; budget: BudgetView | null; used: BudgetView; waits_until: string | null };
  type SenderList = { since: string; senders: SenderView[]; left: number };
  type ChannelEntry = { channel: string; state: string | null; detail: string | null; since: string | null; messages: number; newest_at: string | null };
  type ReplayEntry = { request_id: string; sender: string; headline: string; created_at: string; then: string; decision: string | null; now: string | null; rule: string | null; why: string; differs: boolean };
  type RuleView = { name: string; then: string; matches: boolean; why_not: string | null };
  type PolicyExplanation = { ruling: string; who: string | null; rule: string | null; why: string; sandbox: string; asked: string; accept_means: string; deadline_secs: number; rules: RuleView[] };
}
