package edge

import (
	"fmt"
	"net/http"
	"time"
)

// ListenAndServe serves the handler as a plain HTTP server, for containers and for development. It returns only with an
// error.
func ListenAndServe(addr string, h http.Handler) error {
	s := &http.Server{Addr: addr, Handler: h, ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 64 << 10}
	if err := s.ListenAndServe(); err != nil {
		return fmt.Errorf("serving %s: %w", addr, err)
	}
	return nil
}
