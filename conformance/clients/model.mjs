// What the small model behind the server answers. It is deterministic and looks
// only at the request, so every client can be held to the exact words.

export const text = { prompt: 'Hello there', answer: 'You said: Hello there', words: 2, answerWords: 4 };

/** The weather tool; its result is a function of the city, so calls cannot be mixed up unseen. */
export const weather = {
  name: 'get_weather',
  description: 'The weather in a city',
  parameters: {
    type: 'object',
    properties: { city: { type: 'string' } },
    required: ['city'],
    additionalProperties: false,
  },
  result: (city) => `sunny in ${city}`,
};

export const oneCall = {
  prompt: 'What is the weather in Rome?',
  cities: ['Rome'],
  answer: 'The tool answered: sunny in Rome',
};

export const twoCalls = {
  prompt: 'Tell me the weather in Rome and Oslo, both',
  cities: ['Rome', 'Oslo'],
  answer: 'The tool answered: sunny in Rome, sunny in Oslo',
};

export const structured = {
  prompt: 'Describe a person',
  name: 'person',
  schema: {
    type: 'object',
    properties: { name: { type: 'string' }, age: { type: 'integer' } },
    required: ['name', 'age'],
    additionalProperties: false,
  },
  answer: { name: 'x', age: 1 },
};

// A PNG of one pixel.
const pixel =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';

export const image = {
  prompt: 'What is on this picture?',
  base64: pixel,
  mediaType: 'image/png',
  dataURL: `data:image/png;base64,${pixel}`,
  answer: 'I see 1 image(s): image/png.',
};

export const reasoning = {
  prompt: 'Please think about seven',
  thoughts: 'Let me think about it.',
  thoughtWords: 5,
  answer: 'Thought about: Please think about seven',
};

export const refusal = { prompt: 'Please refuse this', answer: 'I will not do that.' };

/** An answer of 50 tokens that may have only 16, the smallest limit there is. */
export const cutShort = {
  prompt: 'Please count to 50',
  limit: 16,
  answer: Array.from({ length: 16 }, (_, i) => i + 1).join(' '),
};

/** What goes wrong behind the server, in the words that make the model do it. */
export const failures = {
  refused: { prompt: 'Hello there [[status 500]]' },
  limited: { prompt: 'Hello there [[status 429]] [[retry-after 2]]', retryAfter: '2' },
  // After the first token: nothing but that token may have reached the client.
  error: { prompt: 'Hello there [[error]]', seen: 'You' },
  cut: { prompt: 'Hello there [[cut]]', seen: 'You' },
};
