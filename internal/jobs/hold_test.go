package jobs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAWorkIsHeldAsItCame(t *testing.T) {
	for name, size := range map[string]int{"nothing": 0, "a byte": 1, "a piece": piece, "a piece and a byte": piece + 1, "pieces": 3*piece - 7} {
		t.Run(name, func(t *testing.T) {
			text := strings.Repeat("drop ", size/5+1)[:size]
			for _, from := range []io.Reader{strings.NewReader(text), iotest.HalfReader(strings.NewReader(text)), iotest.DataErrReader(strings.NewReader(text))} {
				h, err := hold(from, int64(size))
				require.NoError(t, err)
				assert.EqualValues(t, size, h.size())
				for range 2 { // it can be read again
					got, err := io.ReadAll(h.reader())
					require.NoError(t, err)
					assert.True(t, text == string(got), "other bytes")
				}
			}
		})
	}
}

func TestAWorkThatBreaksOffIsNotHeld(t *testing.T) {
	broken := errors.New("reset")
	for _, end := range []error{broken, io.ErrUnexpectedEOF, fmt.Errorf("broken off: %w", io.EOF)} {
		_, err := hold(io.MultiReader(strings.NewReader("half"), iotest.ErrReader(end)), 100)
		require.ErrorIs(t, err, end)
	}
}

func TestNoMoreIsHeldThanOneByteTooMany(t *testing.T) {
	h, err := hold(strings.NewReader(strings.Repeat("x", 100)), 10)
	require.NoError(t, err)
	assert.EqualValues(t, 11, h.size())
}

func TestAWorkIsInMemoryOnce(t *testing.T) {
	const size = 32 << 20
	work := bytes.NewReader(make([]byte, size))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	h, err := hold(work, size)
	runtime.ReadMemStats(&after)
	require.NoError(t, err)
	require.EqualValues(t, size, h.size())
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(size+2*piece), "what grows as a whole is taken anew at each step")
}
