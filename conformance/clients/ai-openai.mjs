// Vercel's AI SDK through @ai-sdk/openai. Unless told not to store, it sends
// earlier answers as item_reference, so its second turn needs a server that
// remembers.
import assert from 'node:assert/strict';
import { createOpenAI } from '@ai-sdk/openai';
import { define } from './ai-scenarios.mjs';
import { run, target } from './harness.mjs';
import * as model from './model.mjs';

const provider = createOpenAI({ baseURL: target.baseURL, apiKey: target.apiKey });

define({
  languageModel: provider.responses(target.model),
  providerOptions: { openai: { store: target.store } },
  assertRefusal: (way, { error, text, finishReason }) => {
    assert.ifError(error);
    assert.equal(text, model.refusal.answer);
    assert.equal(finishReason, 'content-filter');
  },
});

await run();
