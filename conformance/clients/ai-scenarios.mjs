// The scenarios of Vercel's AI SDK, which reach the server through a provider
// package. The program of each provider calls define() and run().
import assert from 'node:assert/strict';
import { APICallError, generateText, isStepCount, Output, streamText, tool } from 'ai';
import { z } from 'zod';
import { rejection, scenario } from './harness.mjs';
import * as model from './model.mjs';

/**
 * Adds the scenarios for a language model. The options are what the provider
 * wants in every call, and assertRefusal is given what a refusal became, because
 * the providers differ in that: {error} or {text, finishReason}.
 */
export function define({ languageModel, providerOptions, assertRefusal }) {
  const request = (params) => ({ model: languageModel, providerOptions, maxRetries: 0, ...params });

  // Each way resolves with the same few things, and leaves the text that arrived
  // before the end in seen.text. A failure rejects.
  const ways = {
    json: async (params) => pick(await generateText(request(params))),
    streamed: async (params, seen = {}) => {
      seen.text = '';
      const result = streamText(request({ ...params, onError: () => {} }));
      let failure;
      for await (const part of result.stream) {
        if (part.type === 'text-delta') seen.text += part.text;
        if (part.type === 'error') failure ??= part.error;
      }
      if (failure) throw failure;
      return pick(result);
    },
  };

  for (const [way, ask] of Object.entries(ways)) defineFor(way, ask, assertRefusal);
}

// The result of generateText has values where that of streamText has promises.
// A result without structured output has none to give, so it is not asked for.
async function pick(result) {
  const steps = await result.steps;
  return {
    text: await result.text,
    reasoningText: await result.reasoningText,
    finishReason: await result.finishReason,
    usage: await result.usage,
    messages: (await result.response).messages,
    output: () => result.output,
    steps,
  };
}

/** A weather tool that writes down which cities it was asked for. */
function weatherTools(asked) {
  return {
    [model.weather.name]: tool({
      description: model.weather.description,
      inputSchema: z.object({ city: z.string() }),
      execute: async ({ city }) => {
        asked.push(city);
        return model.weather.result(city);
      },
    }),
  };
}

function defineFor(way, ask, assertRefusal) {
  defineAnswers(way, ask);

  scenario(`refusal, ${way}`, async () => {
    const outcome = await ask({ prompt: model.refusal.prompt }).catch((error) => ({ error }));
    assertRefusal(way, outcome);
  });

  scenario(`upstream refuses, ${way}`, async () => {
    const error = await rejection(ask({ prompt: model.failures.refused.prompt }));
    assert.ok(APICallError.isInstance(error), String(error));
    assert.ok(error.statusCode >= 500, `status ${error.statusCode}`);
    assert.ok(error.isRetryable, 'the client may try again');
  });

  scenario(`upstream limits the rate, ${way}`, async () => {
    const error = await rejection(ask({ prompt: model.failures.limited.prompt }));
    assert.ok(APICallError.isInstance(error), String(error));
    assert.equal(error.statusCode, 429);
    assert.equal(error.responseHeaders['retry-after'], model.failures.limited.retryAfter);
  });

  for (const kind of ['error', 'cut']) {
    scenario(`upstream fails after the first token (${kind}), ${way}`, async () => {
      const seen = {};
      const error = await rejection(ask({ prompt: model.failures[kind].prompt }, seen));
      assert.ok(!(error instanceof assert.AssertionError), String(error));
      if (way === 'streamed') assert.equal(seen.text, model.failures[kind].seen);
    });
  }
}

function defineAnswers(way, ask) {
  scenario(`text, ${way}`, async () => {
    const { text, finishReason, usage } = await ask({ prompt: model.text.prompt });
    assert.equal(text, model.text.answer);
    assert.equal(finishReason, 'stop');
    assert.equal(usage.inputTokens, model.text.words);
    assert.equal(usage.outputTokens, model.text.answerWords);
  });

  // The history of the second turn is what the client made of the first one.
  scenario(`second turn, ${way}`, async () => {
    const messages = [{ role: 'user', content: model.text.prompt }];
    const first = await ask({ messages });
    const second = await ask({ messages: [...messages, ...first.messages, ...messages] });
    assert.equal(second.text, model.text.answer);
    assert.equal(second.usage.inputTokens, first.usage.totalTokens + model.text.words);
  });

  for (const [name, turn] of [['one tool call', model.oneCall], ['two parallel tool calls', model.twoCalls]]) {
    scenario(`${name}, ${way}`, async () => {
      const asked = [];
      const { text, steps } = await ask({
        prompt: turn.prompt,
        tools: weatherTools(asked),
        stopWhen: isStepCount(5),
      });
      assert.deepEqual(asked, turn.cities);
      assert.deepEqual(steps.map((step) => step.finishReason), ['tool-calls', 'stop']);
      assert.equal(text, turn.answer);
    });
  }

  scenario(`structured output, ${way}`, async () => {
    const schema = z.object({ name: z.string(), age: z.int() });
    const { output } = await ask({
      prompt: model.structured.prompt,
      output: Output.object({ schema, name: model.structured.name }),
    });
    assert.deepEqual(await output(), model.structured.answer);
  });

  scenario(`image, ${way}`, async () => {
    const content = [
      { type: 'text', text: model.image.prompt },
      { type: 'file', mediaType: model.image.mediaType, data: model.image.base64 },
    ];
    const { text } = await ask({ messages: [{ role: 'user', content }] });
    assert.equal(text, model.image.answer);
  });

  scenario(`reasoning, ${way}`, async () => {
    const { text, reasoningText, usage } = await ask({ prompt: model.reasoning.prompt });
    assert.equal(reasoningText, model.reasoning.thoughts);
    assert.equal(text, model.reasoning.answer);
    assert.equal(usage.outputTokenDetails.reasoningTokens, model.reasoning.thoughtWords);
  });

  scenario(`max tokens, ${way}`, async () => {
    const { text, finishReason, usage } = await ask({
      prompt: model.cutShort.prompt,
      maxOutputTokens: model.cutShort.limit,
    });
    assert.equal(finishReason, 'length');
    assert.equal(text, model.cutShort.answer);
    assert.equal(usage.outputTokens, model.cutShort.limit);
  });
}
