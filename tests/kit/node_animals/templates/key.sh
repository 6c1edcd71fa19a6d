#!/bin/sh
echo {{ key | base64 }}
