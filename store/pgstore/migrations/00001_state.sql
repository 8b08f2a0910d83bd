-- +goose Up

-- A response is found by its id and owner, and its day by its id: partitions are
-- days. Its bodies are packed by us, so PostgreSQL need not try again.
create table responses (
	id           uuid        not null,
	parent       uuid,                  -- the response that it continues
	conversation uuid,
	epoch        int8        not null,
	oldest       timestamptz not null,
	depth        int4        not null,
	parent_items int4        not null,  -- how many of the parent's own items it continues
	deleted      bool        not null default false,
	owner        text        not null collate "C",
	status       text        not null collate "C",
	losses       bytea,
	draft_keys   bytea[],               -- its keys, until it has ended
	head         bytea,
	context      bytea,
	input        bytea,
	output       bytea,
	primary key (id, owner)
) partition by range (id);

alter table responses
	alter head set storage external,
	alter context set storage external,
	alter input set storage external,
	alter output set storage external;

-- Who continues a response decides whether a deleted one can be wiped.
create index responses_parent on responses (parent, owner) where parent is not null;

-- What else a response can be found by: its output items, and the contexts that
-- it marks (then items is how many of its own items the context takes).
create table response_keys (
	response uuid  not null,
	items    int4,
	owner    text  not null collate "C",
	key      bytea not null
) partition by range (response);

-- The newest response with a key is the first in this order, over all partitions.
create index response_keys_key on response_keys (owner, key, response);

create table conversations (
	id       uuid not null,
	next     int8 not null default 0, -- position of the next item
	items    int4 not null default 0,
	owner    text not null collate "C",
	metadata bytea,
	primary key (id, owner)
);

create table conversation_items (
	conversation uuid  not null,
	position     int8  not null,
	owner        text  not null collate "C",
	key          bytea not null,
	body         bytea not null,
	primary key (conversation, owner, position),
	unique (conversation, owner, key)
);

alter table conversation_items alter body set storage external;

-- +goose Down
drop table conversation_items;
drop table conversations;
drop table response_keys;
drop table responses;
