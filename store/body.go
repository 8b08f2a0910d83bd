package store

import (
	"encoding/binary"
	"encoding/json/jsontext"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// A Body is items or JSON as backends keep it: a byte for the version of the
// layout, a byte for the codec, and the packed rest. An empty body is no items.
//
// Items are laid out as their number and, for each, its id and its data with their
// lengths (unsigned varints), so that taking a context apart scans no JSON.
type Body []byte

const (
	bodyVersion = 1

	codecPlain byte = 0
	codecZstd  byte = 1

	// worthPacking is from how many bytes on zstd saves anything.
	worthPacking = 512
)

var errBody = errors.New("store: a stored body is broken")

// zstd coders may be shared; they are made when the first body is packed.
var (
	packer = sync.OnceValue(func() *zstd.Encoder {
		e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(0))
		if err != nil {
			panic(err) // the options are constants
		}
		return e
	})
	unpacker = sync.OnceValue(func() *zstd.Decoder {
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(1<<30))
		if err != nil {
			panic(err)
		}
		return d
	})
)

// PackItems returns items as a body, nil for none.
func PackItems(items []Item) Body {
	if len(items) == 0 {
		return nil
	}
	size := binary.MaxVarintLen64
	for _, it := range items {
		size += 2*binary.MaxVarintLen32 + len(it.ID) + len(it.Data)
	}
	plain := binary.AppendUvarint(make([]byte, 0, size), uint64(len(items)))
	for _, it := range items {
		plain = binary.AppendUvarint(plain, uint64(len(it.ID)))
		plain = append(plain, it.ID...)
		plain = binary.AppendUvarint(plain, uint64(len(it.Data)))
		plain = append(plain, it.Data...)
	}
	return Pack(plain)
}

// Pack returns bytes as a body.
func Pack(plain []byte) Body {
	if len(plain) < worthPacking {
		return append(Body{bodyVersion, codecPlain}, plain...)
	}
	out := make([]byte, 2, 2+len(plain)/2)
	out[0], out[1] = bodyVersion, codecZstd
	return packer().EncodeAll(plain, out)
}

// Unpack returns what was packed. It fails with ErrTooLong if that is larger than
// limit bytes.
func (b Body) Unpack(limit int) ([]byte, error) {
	if len(b) == 0 {
		return nil, nil
	}
	if len(b) < 2 || b[0] != bodyVersion {
		return nil, fmt.Errorf("%w: it is not of version %d", errBody, bodyVersion)
	}
	switch rest := b[2:]; b[1] {
	case codecPlain:
		if len(rest) > limit {
			return nil, ErrTooLong
		}
		return rest, nil
	case codecZstd:
		var head zstd.Header
		if err := head.Decode(rest); err != nil {
			return nil, fmt.Errorf("%w: %w", errBody, err)
		}
		if !head.HasFCS {
			return nil, fmt.Errorf("%w: it does not say how large it is", errBody)
		}
		if head.FrameContentSize > uint64(max(limit, 0)) {
			return nil, ErrTooLong
		}
		plain, err := unpacker().DecodeAll(rest, make([]byte, 0, head.FrameContentSize))
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errBody, err)
		}
		return plain, nil
	}
	return nil, fmt.Errorf("%w: its codec %d is not known", errBody, b[1])
}

// Items returns the items of a body made by [PackItems].
func (b Body) Items(limit int) ([]Item, error) { return b.appendItems(nil, &limit) }

// Find returns those items of a body made by [PackItems] that have one of the ids.
func (b Body) Find(ids []string) ([]Item, error) {
	items, err := b.Items(math.MaxInt)
	return slices.DeleteFunc(items, func(it Item) bool { return !slices.Contains(ids, it.ID) }), err
}

// appendItems adds the items of a body to dst and takes their bytes off limit.
func (b Body) appendItems(dst []Item, limit *int) ([]Item, error) {
	plain, err := b.Unpack(*limit)
	if err != nil || len(plain) == 0 {
		return dst, err
	}
	*limit -= len(plain)
	r := fieldReader{plain}
	n, err := r.number()
	if err != nil || n > uint64(len(plain)) {
		return nil, errBody
	}
	for range n {
		id, err := r.field()
		if err != nil {
			return nil, err
		}
		data, err := r.field()
		if err != nil {
			return nil, err
		}
		dst = append(dst, Item{ID: string(id), Data: jsontext.Value(data)})
	}
	return dst, nil
}

// fieldReader takes a plain body apart.
type fieldReader struct{ rest []byte }

func (r *fieldReader) number() (uint64, error) {
	n, size := binary.Uvarint(r.rest)
	if size <= 0 {
		return 0, errBody
	}
	r.rest = r.rest[size:]
	return n, nil
}

func (r *fieldReader) field() ([]byte, error) {
	n, err := r.number()
	if err != nil || n > uint64(len(r.rest)) {
		return nil, errBody
	}
	f := r.rest[:n:n]
	r.rest = r.rest[n:]
	return f, nil
}
