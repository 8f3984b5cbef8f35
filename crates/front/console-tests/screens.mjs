// The screens of the console, each with what makes it ready.
export const SCREENS = {
  inbox: ['requests', '.question'],
  question: ['requests/r0001', '.question'],
  conversations: ['conversations', '.row'],
  conversation: ['conversations/c-0', '.live-work .answer'],
  asking: ['conversations/c-1', '.message .question'],
  tasks: ['tasks', '.row'],
  task: ['tasks/codex-3f2a91c04d71', '.message'],
  why: ['messages/m-0-1', '.timeline .attempt'],
  failed: ['dead', '.dead'],
  health: ['health', '.tiles'],
  figures: ['figures', '.chart svg'],
  access: ['access', 'table'],
  rules: ['policy', 'form'],
  audit: ['audit', '.verified .badge.good'],
};
