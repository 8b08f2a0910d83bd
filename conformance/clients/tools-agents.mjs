// The OpenAI Agents SDK for JavaScript, with tools that the gateway runs. To the SDK
// they are hosted: it executes none of them, and asks its user for approval.
import assert from 'node:assert/strict';
import { Agent, hostedMcpTool, OpenAIProvider, Runner } from '@openai/agents';
import OpenAI from 'openai';
import { run, scenario, target } from './harness.mjs';

const runner = new Runner({
  modelProvider: new OpenAIProvider({
    openAIClient: new OpenAI({ baseURL: target.baseURL, apiKey: target.apiKey, maxRetries: 0 }),
    useResponses: true,
  }),
  tracingDisabled: true,
});

const agent = (...tools) =>
  new Agent({ name: 'Conformance', model: target.model, modelSettings: { store: target.store }, tools });

const ways = {
  json: (tool, input) => runner.run(agent(tool), input),
  streamed: async (tool, input) => {
    const result = await runner.run(agent(tool), input, { stream: true });
    for await (const _ of result); // to its end
    await result.completed;
    if (result.error) throw result.error;
    return result;
  },
};

const hosted = (result) => result.newItems.filter((item) => item.rawItem?.type === 'hosted_tool_call').map((item) => item.rawItem);

for (const [way, ask] of Object.entries(ways)) {
  scenario(`${way}: lists and calls`, async () => {
    const tool = hostedMcpTool({ serverLabel: 'everything', allowedTools: ['echo', 'get-sum'] });
    const result = await ask(tool, '[[call echo {"message":"hello"}]][[call get-sum {"a":2,"b":3}]]');
    assert.equal(result.finalOutput, 'The tool answered: The sum of 2 and 3 is 5.');
    const outputs = hosted(result).map((item) => item.output).filter(Boolean);
    assert.deepEqual(outputs, ['Echo: hello', 'The sum of 2 and 3 is 5.']);
  });

  scenario(`${way}: an error is a result`, async () => {
    const result = await ask(hostedMcpTool({ serverLabel: 'go', allowedTools: ['fail'] }), '[[call fail {"text":"no luck"}]]');
    assert.match(result.finalOutput, /Error: no luck/);
  });

  for (const approve of [true, false]) {
    scenario(`${way}: approval ${approve ? 'given' : 'denied'}`, async () => {
      const asked = [];
      const tool = hostedMcpTool({
        serverLabel: 'guarded',
        allowedTools: ['echo'],
        requireApproval: 'always',
        onApproval: async (_, request) => {
          asked.push(request.rawItem.name);
          return { approve, reason: approve ? undefined : 'not now' };
        },
      });
      const result = await ask(tool, '[[call echo {"message":"please"}]]');
      assert.deepEqual(asked, ['echo']);
      assert.match(result.finalOutput, approve ? /Echo: please/ : /denied/);
    });
  }

  // The small model behind Chat Completions takes the message that brings the image
  // for the user's next word, and calls again.
  if (process.env.ANTIPHON_UPSTREAM === 'responses') {
    scenario(`${way}: an image in a result`, async () => {
      const result = await ask(hostedMcpTool({ serverLabel: 'everything', allowedTools: ['get-tiny-image'] }), '[[call get-tiny-image {}]]');
      assert.match(result.finalOutput, /The tool answered/);
    });
  }
}

await run();
