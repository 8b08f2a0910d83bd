package config

// similar reports whether a key is one mistake away from a known one: a letter
// more, less or other, or two swapped.
func similar(key, known string) bool {
	if len(key) > len(known) {
		key, known = known, key
	}
	i := 0
	for i < len(key) && key[i] == known[i] {
		i++
	}
	switch len(known) - len(key) {
	case 0:
		return key[min(i+1, len(key)):] == known[min(i+1, len(key)):] ||
			i+1 < len(key) && key[i] == known[i+1] && key[i+1] == known[i] && key[i+2:] == known[i+2:]
	case 1:
		return key[i:] == known[i+1:]
	}
	return false
}
