package responses

import "reflect"

// What the published API has beyond what the structs of this package name: members
// that pass as they are, and kinds that are kept whole. Strict mode strips what is
// in neither. The tables are facts about the wire; extending one needs no other
// change.

// publishedMembers are members of the known structs.
var publishedMembers = map[reflect.Type][]string{
	reflect.TypeFor[Request](): {
		"allowed_tools", "context_management", "moderation", "prompt", "prompt_cache_options", "prompt_cache_retention",
	},
	reflect.TypeFor[Response](): {
		"conversation", "moderation", "prompt", "prompt_cache_options", "prompt_cache_retention",
	},
	reflect.TypeFor[ReasoningConfig]():      {"context", "generate_summary", "mode"},
	reflect.TypeFor[FunctionCall]():         {"caller", "async", "created_by"},
	reflect.TypeFor[FunctionCallOutput]():   {"caller", "created_by", "name", "namespace"},
	reflect.TypeFor[CustomToolCall]():       {"caller", "created_by"},
	reflect.TypeFor[CustomToolCallOutput](): {"caller", "created_by"},
	reflect.TypeFor[Compaction]():           {"created_by"},
	reflect.TypeFor[ToolSearchCall]():       {"created_by"},
	reflect.TypeFor[ToolSearchOutput]():     {"created_by"},
	reflect.TypeFor[FunctionTool]():         {"allowed_callers", "async", "defer_loading", "output_schema"},
	reflect.TypeFor[MCPTool]():              {"allowed_callers", "connector_id", "defer_loading", "server_description", "tunnel_id"},
	reflect.TypeFor[CustomTool]():           {"allowed_callers", "defer_loading"},
	reflect.TypeFor[InputText]():            {"prompt_cache_breakpoint"},
	reflect.TypeFor[InputImage]():           {"prompt_cache_breakpoint"},
	reflect.TypeFor[InputFile]():            {"detail", "prompt_cache_breakpoint"},
}

// publishedItems are the members of items that this package has no struct for.
var publishedItems = map[string][]string{
	"apply_patch_call":        {"call_id", "caller", "created_by", "operation", "status"},
	"apply_patch_call_output": {"call_id", "caller", "created_by", "output", "status"},
	"code_interpreter_call":   {"code", "container_id", "outputs", "status"},
	"computer_call":           {"action", "actions", "call_id", "pending_safety_checks", "status"},
	"computer_call_output":    {"acknowledged_safety_checks", "call_id", "created_by", "output", "status"},
	"configuration_update":    {"reasoning", "text"},
	"file_search_call":        {"queries", "results", "status"},
	"image_generation_call":   {"background", "output_format", "quality", "result", "revised_prompt", "size", "status"},
	"local_shell_call":        {"action", "call_id", "status"},
	"local_shell_call_output": {"call_id", "output", "status"},
	"program":                 {"call_id", "code", "fingerprint"},
	"program_output":          {"call_id", "result", "status"},
	"shell_call":              {"action", "call_id", "caller", "created_by", "environment", "status"},
	"shell_call_output":       {"call_id", "caller", "created_by", "max_output_length", "output", "status"},
	"web_search_call":         {"action", "status"},
}

// publishedParts are the members of parts that this package has no struct for.
// Audio and video pass to upstreams that take them (R3).
var publishedParts = map[string][]string{
	"input_audio": {"input_audio"},
	"input_video": {"video_url"},
	"text":        {"text"},
}

// publishedTools are the members of tools that this package has no struct for. Each
// may also be a tool_choice.
var publishedTools = map[string][]string{
	"apply_patch":                   {"allowed_callers"},
	"code_interpreter":              {"allowed_callers", "container"},
	"computer":                      {},
	"computer_use":                  {},
	"computer_use_preview":          {"display_height", "display_width", "environment"},
	"file_search":                   {"filters", "max_num_results", "ranking_options", "vector_store_ids"},
	"image_generation":              imageMembers,
	"local_shell":                   {},
	"programmatic_tool_calling":     {},
	"shell":                         {"allowed_callers", "environment"},
	"web_search":                    searchMembers,
	"web_search_2025_08_26":         searchMembers,
	"web_search_preview":            {"search_content_types", "search_context_size", "user_location"},
	"web_search_preview_2025_03_11": {"search_content_types", "search_context_size", "user_location"},
}

var (
	searchMembers = []string{"external_web_access", "filters", "search_content_types", "search_context_size", "user_location"}
	imageMembers  = []string{
		"action", "background", "input_fidelity", "input_image_mask", "model", "moderation", "output_compression",
		"output_format", "partial_images", "quality", "size",
	}
)

// publishedAnnotations are the members of annotations, which are kept as they came.
var publishedAnnotations = map[string][]string{
	"container_file_citation": {"container_id", "end_index", "file_id", "filename", "start_index"},
	"file_citation":           {"file_id", "filename", "index"},
	"file_path":               {"file_id", "index"},
	"url_citation":            {"end_index", "start_index", "title", "url"},
}

// publishedEvents are the members of events beyond those that any event may have.
// Those of shapes have what their shape says too.
var publishedEvents = map[EventType][]string{
	EventAnnotationAdded: {"annotation", "annotation_index"},
	EventArgumentsDone:   {"name"},
	EventSummaryPartDone: {"status"},

	"response.code_interpreter_call.completed":     {},
	"response.code_interpreter_call.in_progress":   {},
	"response.code_interpreter_call.interpreting":  {},
	"response.code_interpreter_call_code.delta":    {"delta"},
	"response.code_interpreter_call_code.done":     {"code"},
	"response.compaction.compacting":               {},
	"response.file_search_call.completed":          {},
	"response.file_search_call.in_progress":        {},
	"response.file_search_call.searching":          {},
	"response.image_generation_call.completed":     {},
	"response.image_generation_call.generating":    {},
	"response.image_generation_call.in_progress":   {},
	"response.image_generation_call.partial_image": {"background", "output_format", "partial_image_b64", "partial_image_index", "quality", "size"},
	"response.shell_call_command.added":            {"command", "command_index"},
	"response.shell_call_command.delta":            {"command_index", "delta"},
	"response.shell_call_command.done":             {"command", "command_index"},
	"response.shell_call_output_content.delta":     {"command_index", "delta"},
	"response.shell_call_output_content.done":      {"command_index", "output"},
	"response.web_search_call.completed":           {},
	"response.web_search_call.in_progress":         {},
	"response.web_search_call.searching":           {},
}
