package edge

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"spillway/internal/catalog"
	"spillway/internal/chat"
	"spillway/internal/fault"
	"spillway/internal/gateway"
)

// health says that the process lives, and which versions it runs. It needs no key and touches nothing.
func (h *handler) health(x *exchange) {
	x.answer(http.StatusOK, map[string]string{"status": "ok", "version": h.Version, "config_version": h.ConfigVersion, "policy_version": h.PolicyVersion})
}

// explain shows the candidates of a request without calling any.
func (h *handler) explain(x *exchange) {
	e, err := h.Gateway.Explain(x.r.Context(), x.call())
	if err != nil {
		x.Refuse(gateway.Head{}, err)
		return
	}
	x.answer(http.StatusOK, e)
}

// modelObject is OpenAI's model object, with our capabilities beside it.
//
// Of a model that makes media OpenAI's own object says nothing: its endpoints tell it from one that chats.
type modelObject struct {
	ID           chat.RequestedModel `json:"id"`
	Object       string              `json:"object"`
	Created      int64               `json:"created"`
	OwnedBy      string              `json:"owned_by"`
	Kind         string              `json:"kind"`
	Endpoints    []string            `json:"endpoints"` // paths that take the model in their bodies, with POST
	Capabilities capabilities        `json:"capabilities"`
}

type capabilities struct {
	Cannot    []catalog.Feature `json:"cannot"`
	Context   int64             `json:"context,omitempty"`
	MaxOutput int64             `json:"max_output,omitempty"`
}

// endpoints are the paths that take a model, by what it must be able to do.
var endpoints = []struct {
	need catalog.Feature
	path string
}{{catalog.Chat, "/v1/chat/completions"}, {catalog.Videos, "/v1/videos"}, {catalog.Music, "/v1/music"}}

func objectOf(m gateway.Model) modelObject {
	o := modelObject{ID: m.ID, Object: "model", OwnedBy: strings.Join(m.Providers, ","), Kind: "model", Endpoints: []string{},
		Capabilities: capabilities{Cannot: append([]catalog.Feature{}, m.Cannot...), Context: m.Context, MaxOutput: m.MaxOutput}}
	if m.Route {
		o.OwnedBy, o.Kind = "spillway", "route"
	}
	for _, e := range endpoints {
		if !slices.Contains(m.Cannot, e.need) {
			o.Endpoints = append(o.Endpoints, e.path)
		}
	}
	return o
}

// models lists what the key may call.
func (h *handler) models(x *exchange) {
	list, err := h.Gateway.Models(x.call())
	if err != nil {
		x.Refuse(gateway.Head{}, err)
		return
	}
	data := make([]modelObject, 0, len(list))
	for _, m := range list {
		data = append(data, objectOf(m))
	}
	x.answer(http.StatusOK, map[string]any{"object": "list", "data": data})
}

// model shows one of them.
func (h *handler) model(x *exchange) {
	m, ok, err := h.Gateway.Model(x.call(), chat.RequestedModel(x.rest))
	switch {
	case err != nil:
	case ok:
		x.answer(http.StatusOK, objectOf(m))
		return
	default:
		err = &fault.Error{Code: fault.ModelNotFound, Param: "model", Message: "this key may call no route or model of this id; see GET /v1/models"}
	}
	x.Refuse(gateway.Head{}, err)
}

// trace shows what became of a request. An id that no request can have is one of which no trace is kept.
func (h *handler) trace(x *exchange) {
	id := x.rest
	if !isRequestID(id) {
		id = "" // nobody's
	}
	t, err := h.Gateway.Trace(x.r.Context(), x.call(), id)
	if err != nil {
		x.Refuse(gateway.Head{}, err)
		return
	}
	x.answer(http.StatusOK, t)
}

// call is the request as the gateway takes it.
func (x *exchange) call() gateway.Call {
	return gateway.Call{ID: x.id, Key: presentedKey(x.r.Header), Read: x.read}
}

// answer writes a value as a plain JSON answer.
func (x *exchange) answer(status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		panic("our own values always encode: " + err.Error())
	}
	x.committed = true
	x.w.Header().Set("Content-Type", "application/json")
	x.begin(status)
	_, _ = x.w.Write(append(body, '\n')) // a client that left needs no answer
}
