// The OpenAI SDK for JavaScript, with tools that the gateway runs: two real MCP
// servers, one of the public package and one built with the Go SDK. Every scenario
// runs over create(), create({stream: true}) and the .stream() helper.
import assert from 'node:assert/strict';
import OpenAI from 'openai';
import { rejection, remembers, run, scenario, target } from './harness.mjs';

const client = new OpenAI({ baseURL: target.baseURL, apiKey: target.apiKey, maxRetries: 0 });
const request = (params) => ({ model: target.model, store: target.store, ...params });

const ways = {
  json: (params) => client.responses.create(request(params)),
  events: async (params) => {
    let final;
    let sequence = 0;
    const done = [];
    for await (const event of await client.responses.create(request({ ...params, stream: true }))) {
      assert.equal(event.sequence_number, sequence++, `sequence number of ${event.type}`);
      if (event.type === 'response.output_item.done') done[event.output_index] = event.item;
      if (/^response\.(completed|incomplete|failed)$/.test(event.type)) final = event.response;
    }
    assert.deepEqual(done, final.output, 'the items of the stream against those of the response');
    return final;
  },
  helper: (params) => client.responses.stream(request(params)).finalResponse(),
};

const mcp = (server_label, ...allowed_tools) => ({ type: 'mcp', server_label, allowed_tools });
const types = (response) => response.output.map((item) => item.type);
const call = (response) => response.output.find((item) => item.type === 'mcp_call');
const text = (response) => response.output.filter((item) => item.type === 'message').map((item) => item.content[0].text).join('');
const prompt = (words) => [{ role: 'user', content: words }];

/** The request that goes on from a response with more input. */
function next(first, input, more, params) {
  return remembers
    ? { ...params, previous_response_id: first.id, input: more }
    : { ...params, input: [...input, ...first.output, ...more] };
}

for (const [way, ask] of Object.entries(ways)) {
  scenario(`${way}: lists and calls`, async () => {
    const response = await ask({ input: prompt('[[call echo {"message":"hello"}]]'), tools: [mcp('everything', 'echo')] });
    assert.deepEqual(types(response), ['mcp_list_tools', 'mcp_call', 'message']);
    assert.deepEqual(response.output[0].tools.map((tool) => tool.name), ['echo']);
    assert.equal(call(response).output, 'Echo: hello');
    assert.equal(call(response).status, 'completed');
    assert.equal(text(response), 'The tool answered: Echo: hello');
    assert.equal(response.status, 'completed');
  });

  scenario(`${way}: several rounds, several servers at once`, async () => {
    const response = await ask({
      input: prompt('[[call everything__echo {"message":"a"}]][[and go__echo {"text":"b"}]][[call get-sum {"a":2,"b":3}]]'),
      tools: [mcp('everything', 'echo', 'get-sum'), mcp('go', 'echo')],
    });
    assert.deepEqual(types(response), ['mcp_list_tools', 'mcp_list_tools', 'mcp_call', 'mcp_call', 'mcp_call', 'message']);
    assert.deepEqual(
      response.output.filter((item) => item.type === 'mcp_call').map((item) => [item.server_label, item.output]),
      [['everything', 'Echo: a'], ['go', 'b'], ['everything', 'The sum of 2 and 3 is 5.']],
    );
  });

  scenario(`${way}: an error is a result`, async () => {
    const response = await ask({ input: prompt('[[call fail {"text":"no luck"}]]'), tools: [mcp('go', 'fail')] });
    assert.equal(call(response).status, 'failed');
    assert.match(JSON.stringify(call(response).error), /no luck/);
    assert.match(text(response), /Error: no luck/);
    assert.equal(response.status, 'completed');
  });

  scenario(`${way}: only tools that are allowed`, async () => {
    const response = await ask({ input: prompt('[[call get-env {}]]'), tools: [mcp('everything', 'echo')] });
    assert.deepEqual(types(response), ['mcp_list_tools', 'message']);
  });

  scenario(`${way}: an image in a result`, async () => {
    const response = await ask({ input: prompt('[[call get-tiny-image {}]]'), tools: [mcp('everything', 'get-tiny-image')], max_tool_calls: 1 });
    const image = call(response)['antiphon:content'].find((part) => part.type === 'input_image');
    assert.match(image.image_url, /^data:image\/png;base64,/);
    assert.match(call(response).output, /\[image\]/);
  });

  for (const approve of [true, false]) {
    scenario(`${way}: approval ${approve ? 'given' : 'denied'}`, async () => {
      const input = prompt('[[call echo {"message":"please"}]]');
      const tools = [mcp('guarded', 'echo')];
      const first = await ask({ input, tools });
      assert.deepEqual(types(first), ['mcp_list_tools', 'mcp_approval_request']);
      const asked = first.output[1];
      assert.equal(asked.name, 'echo');
      assert.deepEqual(JSON.parse(asked.arguments), { message: 'please' });
      const answer = { type: 'mcp_approval_response', approval_request_id: asked.id, approve };
      const second = await ask(next(first, input, [answer], { tools }));
      if (approve) {
        assert.deepEqual(types(second), ['mcp_call', 'message'], 'the list is shown once');
        assert.equal(call(second).approval_request_id, asked.id);
        assert.equal(call(second).output, 'Echo: please');
      } else {
        assert.deepEqual(types(second), ['message']);
        assert.match(text(second), /denied/);
      }
    });
  }

  scenario(`${way}: a client's own function beside them`, async () => {
    const response = await ask({
      input: prompt('[[call echo {"message":"ours"}]][[and lookup {"key":"theirs"}]]'),
      tools: [mcp('everything', 'echo'), { type: 'function', name: 'lookup', parameters: { type: 'object', properties: { key: { type: 'string' } } }, strict: false }],
    });
    assert.equal(response.status, 'completed');
    assert.equal(call(response).output, 'Echo: ours');
    const own = response.output.find((item) => item.type === 'function_call');
    assert.deepEqual(JSON.parse(own.arguments), { key: 'theirs' });
  });

  scenario(`${way}: max_tool_calls`, async () => {
    const response = await ask({
      input: prompt('[[call echo {"message":"1"}]][[call echo {"message":"2"}]]'), tools: [mcp('everything', 'echo')], max_tool_calls: 1,
    });
    assert.equal(response.status, 'incomplete');
    assert.equal(response.incomplete_details.reason, 'max_tool_calls');
  });

  scenario(`${way}: a server that may not be reached`, async () => {
    const error = await rejection(ask({ input: 'x', tools: [{ type: 'mcp', server_label: 'evil', server_url: 'http://169.254.169.254/mcp' }] }));
    assert.equal(error.status, 400);
    assert.equal(error.param, 'tools[0].server_url');
  });
}

await run();
