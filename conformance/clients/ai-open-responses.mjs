// Vercel's AI SDK through @ai-sdk/open-responses. It has no notion of `store`,
// and always replays the history.
import assert from 'node:assert/strict';
import { createOpenResponses } from '@ai-sdk/open-responses';
import { define } from './ai-scenarios.mjs';
import { run, target } from './harness.mjs';

const provider = createOpenResponses({
  name: 'antiphon',
  url: `${target.baseURL}/responses`,
  apiKey: target.apiKey,
});

define({
  languageModel: provider(target.model),
  providerOptions: {},
  // This version knows no refusal: it ignores a streamed one and trips over a
  // whole one. What must never happen is that a refusal reads like an answer.
  assertRefusal: (way, { error, text }) => {
    if (way === 'json') assert.ok(error instanceof TypeError, `expected the known TypeError, got ${error ?? text}`);
    else assert.equal(text, '');
  },
});

await run();
