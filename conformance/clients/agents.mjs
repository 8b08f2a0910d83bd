// The OpenAI Agents SDK for JavaScript: its own runner executes the tools.
import assert from 'node:assert/strict';
import {
  Agent,
  ModelBehaviorError,
  ModelRefusalError,
  OpenAIProvider,
  Runner,
  tool,
} from '@openai/agents';
import OpenAI, { APIError, InternalServerError, RateLimitError } from 'openai';
import { z } from 'zod';
import { rejection, run, scenario, target } from './harness.mjs';
import * as model from './model.mjs';

const runner = new Runner({
  modelProvider: new OpenAIProvider({
    openAIClient: new OpenAI({ baseURL: target.baseURL, apiKey: target.apiKey, maxRetries: 0 }),
    useResponses: true,
  }),
  tracingDisabled: true,
});

function agent({ modelSettings, ...options } = {}) {
  return new Agent({
    name: 'Conformance',
    model: target.model,
    modelSettings: { store: target.store, ...modelSettings },
    ...options,
  });
}

// Each way resolves with the result of a finished run and leaves the text that
// arrived before the end in seen.text.
const ways = {
  json: (options, input) => runner.run(agent(options), input),

  streamed: async (options, input, seen = {}) => {
    seen.text = '';
    const result = await runner.run(agent(options), input, { stream: true });
    for await (const event of result) {
      if (event.type === 'raw_model_stream_event' && event.data.type === 'output_text_delta') {
        seen.text += event.data.delta;
      }
    }
    await result.completed;
    if (result.error) throw result.error;
    return result;
  },
};

/** A weather tool that writes down which cities it was asked for. */
function weatherTool(asked) {
  return tool({
    name: model.weather.name,
    description: model.weather.description,
    parameters: z.object({ city: z.string() }),
    execute: ({ city }) => {
      asked.push(city);
      return model.weather.result(city);
    },
  });
}

for (const [way, ask] of Object.entries(ways)) {
  scenario(`text, ${way}`, async () => {
    const seen = {};
    const result = await ask({ instructions: 'Be brief.' }, model.text.prompt, seen);
    assert.equal(result.finalOutput, model.text.answer);
    assert.equal(result.rawResponses[0].usage.outputTokens, model.text.answerWords);
    if (way === 'streamed') assert.equal(seen.text, model.text.answer);
  });

  for (const [name, turn] of [['one tool call', model.oneCall], ['two parallel tool calls', model.twoCalls]]) {
    scenario(`${name}, ${way}`, async () => {
      const asked = [];
      const result = await ask({ tools: [weatherTool(asked)] }, turn.prompt);
      assert.deepEqual(asked, turn.cities);
      assert.equal(result.finalOutput, turn.answer);
      assert.equal(result.rawResponses.length, 2, 'one turn for all calls, one for the answer');
    });
  }

  scenario(`structured output, ${way}`, async () => {
    const outputType = z.object({ name: z.string(), age: z.int() });
    const result = await ask({ outputType }, model.structured.prompt);
    assert.deepEqual(result.finalOutput, model.structured.answer);
  });

  scenario(`image, ${way}`, async () => {
    const content = [
      { type: 'input_text', text: model.image.prompt },
      { type: 'input_image', image: model.image.dataURL },
    ];
    const result = await ask({}, [{ role: 'user', content }]);
    assert.equal(result.finalOutput, model.image.answer);
  });

  scenario(`reasoning, ${way}`, async () => {
    const options = { modelSettings: { reasoning: { effort: 'low', summary: 'auto' } } };
    const result = await ask(options, model.reasoning.prompt);
    const thoughts = result.newItems.filter((item) => item.type === 'reasoning_item');
    assert.equal(thoughts.length, 1);
    const { content, rawContent = [] } = thoughts[0].rawItem;
    assert.equal([...content, ...rawContent].map((part) => part.text).join(''), model.reasoning.thoughts);
    assert.equal(result.finalOutput, model.reasoning.answer);
  });

  scenario(`second turn after reasoning, ${way}`, async () => {
    const first = await ask({}, model.reasoning.prompt);
    const second = await ask({}, [...first.history, { role: 'user', content: model.text.prompt }]);
    assert.equal(second.finalOutput, model.text.answer);
  });

  scenario(`refusal, ${way}`, async () => {
    const error = await rejection(ask({}, model.refusal.prompt));
    assert.ok(error instanceof ModelRefusalError, String(error));
    assert.equal(error.refusal, model.refusal.answer);
  });

  // An incomplete response is an error to this client.
  scenario(`max tokens, ${way}`, async () => {
    const options = { modelSettings: { maxTokens: model.cutShort.limit } };
    const error = await rejection(ask(options, model.cutShort.prompt));
    assert.ok(error instanceof ModelBehaviorError, String(error));
    assert.match(error.message, /incomplete/);
  });

  scenario(`upstream refuses, ${way}`, async () => {
    const error = await rejection(ask({}, model.failures.refused.prompt));
    assert.ok(error instanceof InternalServerError, String(error));
  });

  scenario(`upstream limits the rate, ${way}`, async () => {
    const error = await rejection(ask({}, model.failures.limited.prompt));
    assert.ok(error instanceof RateLimitError, String(error));
    assert.equal(error.headers.get('retry-after'), model.failures.limited.retryAfter);
  });

  for (const kind of ['error', 'cut']) {
    scenario(`upstream fails after the first token (${kind}), ${way}`, async () => {
      const seen = {};
      const error = await rejection(ask({}, model.failures[kind].prompt, seen));
      assert.ok(!(error instanceof assert.AssertionError), String(error));
      if (kind === 'error') assert.ok(error instanceof APIError, String(error));
      if (way === 'streamed') assert.equal(seen.text, model.failures[kind].seen);
    });
  }
}

await run();
