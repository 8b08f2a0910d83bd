package server

import (
	"slices"
	"strings"

	"github.com/antiphon-dev/antiphon/upstream"
)

// Codex asks for models with ?client_version and takes only a list of its own kind.
// An empty one leaves its built-in catalog as it is. Any other replaces the whole
// catalog, and each entry brings the instructions under which the model works.

// codexList is GET /v1/models as Codex wants it.
type codexList struct {
	Models []codexModel `json:"models"`
}

// codexModel is an entry of Codex's catalog. Codex refuses the whole list if one of
// the members that are always sent is missing.
type codexModel struct {
	Slug          string `json:"slug"`
	DisplayName   string `json:"display_name"`
	Description   string `json:"description"`
	ContextWindow int64  `json:"context_window,omitzero"`
	Instructions  string `json:"base_instructions"`
	Priority      int    `json:"priority"` // the order in which models are offered

	Visibility        string     `json:"visibility"`
	SupportedInAPI    bool       `json:"supported_in_api"`
	ShellType         string     `json:"shell_type"`
	ApplyPatch        string     `json:"apply_patch_tool_type"`      // without it a model has to patch files in the shell
	ReasoningLevels   []string   `json:"supported_reasoning_levels"` // we know of none
	Verbosity         bool       `json:"support_verbosity"`
	ExperimentalTools []string   `json:"experimental_supported_tools"`
	Truncation        codexLimit `json:"truncation_policy"`

	// For older versions, which require them.
	ReasoningSummaries bool `json:"supports_reasoning_summaries"`
	ParallelToolCalls  bool `json:"supports_parallel_tool_calls"`
}

// codexLimit is how much Codex keeps of what a tool puts out.
type codexLimit struct {
	Mode  string `json:"mode"`
	Limit int64  `json:"limit"`
}

// codexInstructions are for models of which Codex knows nothing. It has no way to
// say that its own are to be used.
const codexInstructions = `You are a coding agent. You and the user share a workspace, and you work in it through the tools that you are given.

- Read what is there before you change it, and follow what the project says about itself, such as in AGENTS.md.
- Make the smallest change that does all of what was asked, in the style of the code around it. Leave alone what you were not asked to touch, and never undo changes that are not yours.
- Run what can be run to check your work: tests, a build, the program itself. Say what you could not check.
- Go on until the task is done. Ask only if you cannot go on without an answer, or before something that cannot be undone.
- Answer in a few plain sentences: what you did, where, and what is left.`

// codexListOf returns the list for Codex. It is empty if there is a model in it that
// Codex knows: what its own catalog says of that one is better than what we could
// say, and it would be lost.
func codexListOf(models []upstream.Model) codexList {
	if slices.ContainsFunc(models, func(m upstream.Model) bool { return knownToCodex(m.ID) }) {
		return codexList{}
	}
	list := codexList{Models: make([]codexModel, 0, len(models))}
	for i, m := range models {
		list.Models = append(list.Models, codexModelOf(m, i+1))
	}
	return list
}

// knownToCodex reports whether the model is of a family that is in Codex's catalog.
// It finds a model there also by the part of its name after a slash.
func knownToCodex(id string) bool {
	name := id[strings.LastIndexByte(id, '/')+1:]
	if strings.HasPrefix(name, "gpt-oss") { // open weights, not in the catalog
		return false
	}
	return strings.HasPrefix(name, "gpt-") || strings.HasPrefix(name, "codex-")
}

func codexModelOf(m upstream.Model, priority int) codexModel {
	// Codex's own models have 10,000; for a small window that is all of it.
	truncation := codexLimit{Mode: "tokens", Limit: 10_000}
	if m.ContextWindow > 0 {
		truncation.Limit = min(truncation.Limit, max(m.ContextWindow/4, 1))
	}
	return codexModel{
		Slug:               m.ID,
		DisplayName:        m.ID,
		Description:        "Served by " + m.OwnedBy + ".",
		ContextWindow:      m.ContextWindow,
		Instructions:       codexInstructions,
		Priority:           priority,
		Visibility:         "list",
		SupportedInAPI:     true,
		ShellType:          "default",
		ApplyPatch:         "freeform",
		Truncation:         truncation,
		ReasoningSummaries: true,
		ParallelToolCalls:  true,
	}
}
