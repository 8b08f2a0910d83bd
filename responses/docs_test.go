package responses

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestDocsListEveryCode: the table that users read is the table in the code.
func TestDocsListEveryCode(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../docs/api/responses.md")
	if err != nil {
		t.Fatal(err)
	}
	for code := range codeTable {
		row := fmt.Sprintf("| `%s` | %d | `%s` |\n", code, code.Status(), code.WireType())
		if !strings.Contains(string(doc), row) {
			t.Errorf("docs/api/responses.md lacks the row %s", row)
		}
	}
	if got := strings.Count(string(doc), "_error` |\n") + strings.Count(string(doc), "`insufficient_quota` |\n"); got != len(codeTable) {
		t.Errorf("docs/api/responses.md has %d rows, want %d", got, len(codeTable))
	}
}
