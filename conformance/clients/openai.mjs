// The OpenAI SDK for JavaScript. Every scenario runs over its three ways to ask:
// create(), create({stream: true}) and the accumulating .stream() helper.
import assert from 'node:assert/strict';
import OpenAI, { APIError, InternalServerError, NotFoundError, RateLimitError } from 'openai';
import { zodResponsesFunction, zodTextFormat } from 'openai/helpers/zod';
import { z } from 'zod';
import { rejection, remembers, run, scenario, target } from './harness.mjs';
import * as model from './model.mjs';

const client = new OpenAI({ baseURL: target.baseURL, apiKey: target.apiKey, maxRetries: 0 });

const weatherTool = {
  type: 'function',
  name: model.weather.name,
  description: model.weather.description,
  parameters: model.weather.parameters,
  strict: true,
};

/** The request with what every request has. An absent store stays absent. */
const request = (params) => ({ model: target.model, store: target.store, ...params });

// Each way resolves with the final response, as its user would see it, and
// leaves the text that arrived before the end in seen.text.
const ways = {
  json: (params) => client.responses.create(request(params)),

  events: async (params, seen = {}) => {
    seen.text = '';
    const joined = {};
    let sequence = 0;
    let final;
    const stream = await client.responses.create(request({ ...params, stream: true }));
    for await (const event of stream) {
      assert.equal(event.sequence_number, sequence++, `sequence number of ${event.type}`);
      assert.equal(final, undefined, `${event.type} came after the terminal event`);
      if (event.type === 'response.output_text.delta') seen.text += event.delta;
      if (event.type.endsWith('.delta')) joined[event.item_id] = (joined[event.item_id] ?? '') + event.delta;
      if (/^response\.(completed|incomplete|failed)$/.test(event.type)) final = event.response;
    }
    assert.ok(final, 'the stream ended without a terminal event');
    for (const item of final.output) {
      assert.equal(joined[item.id], wholeText(item), `deltas of the ${item.type} item against the final item`);
    }
    return { ...final, output_text: seen.text };
  },

  helper: async (params, seen = {}) => {
    seen.text = '';
    const stream = client.responses.stream(request(params));
    stream.on('response.output_text.delta', ({ delta, snapshot }) => {
      seen.text += delta;
      assert.equal(snapshot, seen.text, 'the snapshot of the helper');
    });
    return stream.finalResponse();
  },
};

/** The text that the deltas of an output item add up to. */
function wholeText(item) {
  switch (item.type) {
    case 'message':
      return item.content.map((part) => part.text ?? part.refusal).join('');
    case 'function_call':
      return item.arguments;
    case 'reasoning':
      return reasoningText(item);
    default:
      return assert.fail(`unexpected output item ${item.type}`);
  }
}

function reasoningText(item) {
  return [...item.summary, ...(item.content ?? [])].map((part) => part.text).join('');
}

function functionCalls(response) {
  return response.output.filter((item) => item.type === 'function_call');
}

function outputs(calls) {
  return calls.map((call) => ({
    type: 'function_call_output',
    call_id: call.call_id,
    output: model.weather.result(JSON.parse(call.arguments).city),
  }));
}

/** Asserts that the response asks for the weather in exactly these cities. */
function assertCalls(response, cities) {
  assert.equal(response.status, 'completed');
  const calls = functionCalls(response);
  assert.deepEqual(calls.map((call) => call.name), cities.map(() => model.weather.name));
  assert.deepEqual(calls.map((call) => JSON.parse(call.arguments)), cities.map((city) => ({ city })));
  assert.equal(new Set(calls.map((call) => call.call_id)).size, cities.length, 'call ids are distinct');
  return calls;
}

for (const [way, ask] of Object.entries(ways)) {
  scenario(`text, ${way}`, async () => {
    const response = await ask({ input: model.text.prompt });
    assert.equal(response.status, 'completed');
    assert.equal(response.model, target.model);
    assert.match(response.id, /^resp_/);
    assert.equal(response.output_text, model.text.answer);
    assert.equal(response.usage.input_tokens, model.text.words);
    assert.equal(response.usage.output_tokens, model.text.answerWords);
    assert.equal(response.usage.total_tokens, model.text.words + model.text.answerWords);
  });

  for (const [name, turn] of [['one tool call', model.oneCall], ['two parallel tool calls', model.twoCalls]]) {
    scenario(`${name}, replayed history, ${way}`, async () => {
      const input = [{ role: 'user', content: turn.prompt }];
      const first = await ask({ input, tools: [weatherTool] });
      const calls = assertCalls(first, turn.cities);
      const second = await ask({ input: [...input, ...first.output, ...outputs(calls)], tools: [weatherTool] });
      assert.equal(second.output_text, turn.answer);
    });

    if (!remembers) continue;
    scenario(`${name}, previous_response_id, ${way}`, async () => {
      const first = await ask({ input: turn.prompt, tools: [weatherTool] });
      const second = await ask({
        previous_response_id: first.id,
        input: outputs(assertCalls(first, turn.cities)),
        tools: [weatherTool],
      });
      assert.equal(second.previous_response_id, first.id);
      assert.equal(second.output_text, turn.answer);
    });
  }

  scenario(`structured output, ${way}`, async () => {
    const { name, schema, prompt, answer } = model.structured;
    const response = await ask({
      input: prompt,
      text: { format: { type: 'json_schema', name, schema, strict: true } },
    });
    assert.deepEqual(JSON.parse(response.output_text), answer);
  });

  scenario(`image, ${way}`, async () => {
    const content = [
      { type: 'input_text', text: model.image.prompt },
      { type: 'input_image', image_url: model.image.dataURL, detail: 'auto' },
    ];
    const response = await ask({ input: [{ role: 'user', content }] });
    assert.equal(response.output_text, model.image.answer);
  });

  scenario(`reasoning, ${way}`, async () => {
    const response = await ask({ input: model.reasoning.prompt, reasoning: { effort: 'low', summary: 'auto' } });
    assert.deepEqual(response.output.map((item) => item.type), ['reasoning', 'message']);
    assert.equal(reasoningText(response.output[0]), model.reasoning.thoughts);
    assert.equal(response.output_text, model.reasoning.answer);
    assert.equal(response.usage.output_tokens_details.reasoning_tokens, model.reasoning.thoughtWords);
  });

  // A client that keeps its own history sends the reasoning item back as it got it.
  scenario(`reasoning in a replayed history, ${way}`, async () => {
    const input = [{ role: 'user', content: model.reasoning.prompt }];
    const first = await ask({ input });
    const second = await ask({ input: [...input, ...first.output, { role: 'user', content: model.text.prompt }] });
    assert.equal(second.output_text, model.text.answer);
  });

  scenario(`refusal, ${way}`, async () => {
    const response = await ask({ input: model.refusal.prompt });
    assert.equal(response.status, 'completed');
    const parts = response.output.flatMap((item) => item.content);
    assert.deepEqual(parts.map(({ type, refusal }) => [type, refusal]), [['refusal', model.refusal.answer]]);
    assert.equal(response.output_text, '');
  });

  scenario(`max tokens, ${way}`, async () => {
    const response = await ask({ input: model.cutShort.prompt, max_output_tokens: model.cutShort.limit });
    assert.equal(response.status, 'incomplete');
    assert.equal(response.incomplete_details.reason, 'max_output_tokens');
    assert.equal(response.output.at(-1).status, 'incomplete');
    assert.equal(response.output_text, model.cutShort.answer);
    assert.equal(response.usage.output_tokens, model.cutShort.limit);
  });

  scenario(`upstream refuses, ${way}`, async () => {
    const error = await rejection(ask({ input: model.failures.refused.prompt }));
    assert.ok(error instanceof InternalServerError, String(error));
    assert.ok(error.error?.message, 'the error has a message');
  });

  scenario(`upstream limits the rate, ${way}`, async () => {
    const error = await rejection(ask({ input: model.failures.limited.prompt }));
    assert.ok(error instanceof RateLimitError, String(error));
    assert.equal(error.status, 429);
    assert.equal(error.headers.get('retry-after'), model.failures.limited.retryAfter);
  });

  for (const kind of ['error', 'cut']) {
    scenario(`upstream fails after the first token (${kind}), ${way}`, async () => {
      const seen = {};
      const error = await rejection(ask({ input: model.failures[kind].prompt }, seen));
      assert.ok(!(error instanceof assert.AssertionError), String(error));
      if (kind === 'error') assert.ok(error instanceof APIError, String(error));
      if (way !== 'json') assert.equal(seen.text, model.failures[kind].seen);
    });
  }
}

const Person = z.object({ name: z.string(), age: z.int() });
const personFormat = zodTextFormat(Person, model.structured.name);

scenario('responses.parse, structured output', async () => {
  const response = await client.responses.parse(
    request({ input: model.structured.prompt, text: { format: personFormat } }),
  );
  assert.deepEqual(response.output_parsed, model.structured.answer);
});

scenario('responses.parse, tool arguments', async () => {
  const tool = zodResponsesFunction({ name: model.weather.name, parameters: z.object({ city: z.string() }) });
  const response = await client.responses.parse(request({ input: model.oneCall.prompt, tools: [tool] }));
  assert.deepEqual(functionCalls(response).map((call) => call.parsed_arguments), [{ city: 'Rome' }]);
});

scenario('responses.stream, structured output', async () => {
  const stream = client.responses.stream(
    request({ input: model.structured.prompt, text: { format: personFormat } }),
  );
  const response = await stream.finalResponse();
  assert.deepEqual(response.output_parsed, model.structured.answer);
});

scenario('models.list', async () => {
  const ids = [];
  for await (const { id } of client.models.list()) ids.push(id);
  assert.ok(ids.includes(target.model), `${target.model} is among ${ids}`);
});

if (remembers) {
  // The model counts the words that it was given, which shows what the server
  // put in front of the new input.
  scenario('the whole conversation reaches the model, previous_response_id', async () => {
    const first = await ways.json({ input: model.text.prompt });
    const second = await ways.json({ input: model.text.prompt, previous_response_id: first.id });
    assert.equal(second.output_text, model.text.answer);
    assert.equal(second.usage.input_tokens, first.usage.total_tokens + model.text.words);
  });

  // Tools across three turns: the call, its result, and a question after both.
  scenario('previous_response_id with tools across turns', async () => {
    const first = await ways.json({ input: model.oneCall.prompt, tools: [weatherTool] });
    const second = await ways.helper({
      previous_response_id: first.id,
      input: outputs(assertCalls(first, model.oneCall.cities)),
      tools: [weatherTool],
    });
    assert.equal(second.output_text, model.oneCall.answer);
    const third = await ways.events({ previous_response_id: second.id, input: model.text.prompt });
    assert.equal(third.output_text, model.text.answer);
    assert.equal(third.usage.input_tokens, second.usage.total_tokens + model.text.words);
  });

  scenario('retrieve', async () => {
    const made = await ways.json({ input: model.text.prompt, metadata: { a: 'b' } });
    assert.equal(made.store, true);
    const got = await client.responses.retrieve(made.id);
    assert.deepEqual({ ...got, _request_id: undefined }, { ...made, _request_id: undefined });
    assert.equal(got.output_text, model.text.answer);
  });

  scenario('delete', async () => {
    const { id } = await ways.json({ input: model.text.prompt });
    await client.responses.delete(id);
    for (const call of [() => client.responses.retrieve(id), () => client.responses.delete(id), () => client.responses.inputItems.list(id)]) {
      assert.ok((await rejection(call())) instanceof NotFoundError);
    }
    const error = await rejection(ways.json({ input: model.text.prompt, previous_response_id: id }));
    assert.equal(error.code, 'previous_response_not_found');
  });

  scenario('inputItems.list in pages', async () => {
    const words = Array.from({ length: 25 }, (_, i) => `word ${i}`);
    const { id } = await ways.json({ input: words.map((content) => ({ role: 'user', content })) });
    for (const [order, want] of [['asc', words], [undefined, words.toReversed()]]) {
      const got = [];
      for await (const item of client.responses.inputItems.list(id, { limit: 10, order })) {
        assert.match(item.id, /^msg_/);
        got.push(item.content.map((part) => part.text).join(''));
      }
      assert.deepEqual(got, want);
    }
  });

  scenario('inputTokens.count', async () => {
    const { id } = await ways.json({ input: model.text.prompt });
    const count = async (params) => (await client.responses.inputTokens.count({ model: target.model, ...params })).input_tokens;
    const alone = await count({ input: model.text.prompt });
    const after = await count({ input: model.text.prompt, previous_response_id: id });
    assert.ok(alone > 0 && after > alone, `${alone} alone, ${after} after a response`);
  });

  scenario('conversations', async () => {
    const conversation = await client.conversations.create({ metadata: { topic: 'a' }, items: [{ type: 'message', role: 'user', content: model.text.prompt }] });
    const first = await ways.json({ input: model.oneCall.prompt, tools: [weatherTool], conversation: conversation.id });
    assert.equal(first.conversation.id, conversation.id);
    const second = await ways.helper({
      input: outputs(assertCalls(first, model.oneCall.cities)),
      tools: [weatherTool],
      conversation: { id: conversation.id },
    });
    assert.equal(second.output_text, model.oneCall.answer);
    const types = [];
    let last;
    for await (const item of client.conversations.items.list(conversation.id, { order: 'asc', limit: 2 })) {
      types.push(item.type);
      last = item;
    }
    assert.deepEqual(types, ['message', 'message', 'function_call', 'function_call_output', 'message']);
    assert.equal((await client.conversations.items.retrieve(last.id, { conversation_id: conversation.id })).id, last.id);
    assert.equal((await client.conversations.items.delete(last.id, { conversation_id: conversation.id })).id, conversation.id);
    const added = await client.conversations.items.create(conversation.id, { items: [{ type: 'message', role: 'user', content: 'x' }] });
    assert.equal(added.data.length, 1);
    assert.deepEqual((await client.conversations.update(conversation.id, { metadata: { topic: 'b' } })).metadata, { topic: 'b' });
    assert.deepEqual((await client.conversations.retrieve(conversation.id)).metadata, { topic: 'b' });
    assert.equal((await client.conversations.delete(conversation.id)).deleted, true);
    assert.ok((await rejection(client.conversations.retrieve(conversation.id))) instanceof NotFoundError);
  });
}

await run();
